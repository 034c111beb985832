package contract_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/contract"
)

var errClose = errors.New("disk full")

type store struct{ closed bool }

func (s *store) Close() error {
	s.closed = true
	return errClose
}

func TestCheck(t *testing.T) {
	t.Run("closes the store and joins the errors", func(t *testing.T) {
		s, broken := &store{}, errors.New("broken")
		err := contract.Check(t.Context(), time.Minute, s, func(context.Context) error { return broken })
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, errClose)
		assert.True(t, s.closed)
	})
	t.Run("does not close a store whose call hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, release := &store{}, make(chan struct{})
			err := contract.Check(t.Context(), time.Minute, s, func(context.Context) error { <-release; return nil })
			require.ErrorContains(t, err, "a call did not return within 1m0s")
			assert.False(t, s.closed)
			close(release)
		})
	})
	t.Run("ends a check with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			err := contract.Within(t.Context(), time.Minute, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
}
