package sweep_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// TestHealthOfStop protects the page from a stop of the run that a sweeper is in, which is a time-out of its own and
// not one of the store.
func TestHealthOfStop(t *testing.T) {
	inBubble(t, func(f *fixture) {
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "sweeper", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: time.Second},
		})
		require.NoError(f, err)
		defer wd.Close()
		f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return context.Cause(ctx) }
		_, err = f.sweeper().Sweep(wd.Context())
		require.ErrorIs(f, err, context.DeadlineExceeded)
		_, text := f.health()
		require.Contains(f, text, `"error": "stopped"`)
	})
}
