package contract_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/contract"
)

func TestCatch(t *testing.T) {
	t.Run("returns the error of the first failure", func(t *testing.T) {
		flaw, went := errors.New("flaw"), false
		err := contract.Catch(func() {
			func() { contract.Fail(flaw) }()
			went = true
		})
		require.ErrorIs(t, err, flaw)
		assert.False(t, went)
	})
	t.Run("returns nil for a check that comes to its end", func(t *testing.T) {
		require.NoError(t, contract.Catch(func() {}))
	})
	t.Run("does not recover from another panic", func(t *testing.T) {
		assert.PanicsWithValue(t, "a bug", func() { _ = contract.Catch(func() { panic("a bug") }) })
	})
}
