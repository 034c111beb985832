package watchdog_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestGiveBackSlices protects a scope from slices that stay charged, or that are given back twice, when a run ends.
func TestGiveBackSlices(t *testing.T) {
	type attachRun = func(id string, cfg watchdog.Config) *watchdog.Watchdog
	cfg := watchdog.Config{Scopes: teamOf(6400)} // of which the first slice is 100
	t.Run("what is left is given back of each slice once", func(t *testing.T) {
		inSpendBubble(t, func(store *hangingSpend, attach attachRun) {
			wd := attach("s-1", cfg)
			one, other := admit(t, wd, requests(100)), admit(t, wd, requests(60))
			require.NoError(t, one.Settle(requests(50)))
			require.NoError(t, other.Settle(requests(0)))
			require.NoError(t, wd.Close())
			require.EqualValues(t, 50, store.charged(t, "team").Requests)
		})
	})
	t.Run("a slice of which nobody knows whether it was charged is told of", func(t *testing.T) {
		inSpendBubble(t, func(store *hangingSpend, _ attachRun) {
			var log bytes.Buffer
			lossy := &forgetfulSpend{hangingSpend: store}
			own := cfg
			own.Store, own.SpendStore, own.Logger = &watchdog.Memory{}, lossy, slog.New(slog.NewTextHandler(&log, nil))
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, own)
			require.NoError(t, err)
			lossy.loses = true
			_, err = wd.Admit(context.Background(), "", requests(600))
			require.ErrorIs(t, err, errDiskFull)
			require.NoError(t, wd.Close())
			require.Contains(t, log.String(), "has not said whether it was charged")
		})
	})
}
