package watchdog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestKeeperEnded(t *testing.T) {
	t.Run("Close and Complete tell it when the run has ended, and wait for it", func(t *testing.T) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			k.end = func(ctx context.Context) {
				require.Error(b.t, k.kept[len(k.kept)-1].Context().Err())
				require.NoError(b.t, ctx.Err())
			}
			wd := b.attach()
			require.Empty(t, k.ended)
			require.NoError(t, wd.Close())
			require.Equal(t, []*watchdog.Watchdog{wd}, k.ended)
			wd = b.attach()
			require.NoError(t, wd.Complete())
			require.Len(t, k.ended, 2)
		})
	})
	t.Run("also if the host's context has ended", func(t *testing.T) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			k.end = func(ctx context.Context) { require.NoError(b.t, ctx.Err()) }
			ctx, end := context.WithCancel(context.Background())
			wd, err := watchdog.New(ctx, b.run, b.cfg)
			require.NoError(t, err)
			end()
			require.NoError(t, wd.Close())
			require.Len(t, k.ended, 1)
		})
	})
	t.Run("one that hangs is waited for within the record timeout", func(t *testing.T) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			release := make(chan struct{})
			k.end = func(context.Context) { <-release }
			wd := b.attach()
			closed := make(chan error, 1)
			go func() { closed <- wd.Close() }()
			synctest.Wait()
			b.pass(watchdog.DefaultRecordTimeout - 1)
			require.Empty(t, closed)
			b.pass(1)
			require.NoError(t, <-closed)
			close(release)
		})
	})
	t.Run("one that was never asked to keep the run is not told", func(t *testing.T) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			b.attach()
			b.pass(over)
			wd := b.attach()
			k.ended = nil
			require.NoError(t, wd.Close())
			require.Empty(t, k.ended)
		})
	})
}

// TestKeeperStopped protects a run whose cancel comes between the reading of its events and the attempt's row.
func TestKeeperStopped(t *testing.T) {
	cancelOf := func(b *fixture) watchdog.Event {
		other, err := watchdog.New(b.t.Context(), b.run, watchdog.Config{
			Store: &watchdog.Memory{}, Clock: b.clock, Logger: quiet,
		})
		require.NoError(b.t, err)
		defer other.Close()
		stop := b.cancelled(other, watchdog.Cancellation{Reason: watchdog.SessionIdleTimeout})
		return watchdog.Event{
			ID: stop.EventID(), AggregateType: watchdog.AggregateType, AggregateID: b.run.ID, Type: watchdog.EventCancel,
			Payload: []byte(`{"reason":"idle_timeout","session_started_at":"2026-05-01T12:00:00.000000Z",` +
				`"fired_at":"2026-05-01T12:00:00.000000Z","elapsed_seconds":0,"configured_budget_seconds":0}`),
			Timestamp: noon,
		}
	}
	t.Run("New takes the cancel up at once", func(t *testing.T) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			event := cancelOf(b)
			k.attempt.Stopped = true
			k.keep = func(ctx context.Context, _ *watchdog.Watchdog) error { return b.cfg.Store.Append(ctx, event) }
			wd, err := watchdog.New(b.t.Context(), b.run, b.cfg)
			require.NoError(t, err)
			defer wd.Close()
			require.ErrorIs(t, context.Cause(wd.Context()), watchdog.SessionIdleTimeout)
		})
	})
	t.Run("a run whose row only looks so goes on", func(t *testing.T) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			k.attempt.Stopped = true
			b.live(b.attach())
		})
	})
	t.Run("New fails if it cannot read why", func(t *testing.T) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			k.attempt.Stopped = true
			k.keep = func(context.Context, *watchdog.Watchdog) error {
				b.store.set(func(s *flakyStore) { s.failGet = errDiskFull })
				return nil
			}
			_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			require.ErrorContains(t, err, "read why the run was stopped")
			require.Len(t, k.ended, 1)
		})
	})
	t.Run("Resume does not read again: its window is a fresh one", func(t *testing.T) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			b.attach()
			b.pass(over)
			b.pass(time.Hour)
			k.attempt.Stopped = true
			b.live(b.resume())
		})
	})
}
