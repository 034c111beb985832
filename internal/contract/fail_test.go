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

func TestFails(t *testing.T) {
	want := errors.New("wanted")
	fails := func(err error) error {
		return contract.Catch(func() { contract.Fails("it", want, func() { contract.Must(err, "call") }) })
	}
	require.NoError(t, fails(want))
	require.ErrorContains(t, fails(nil), "it: the call returned nil, want an error")
	require.ErrorContains(t, fails(errors.New("other")), "it: the error is not the wanted one, wanted: call: other")
}
