package watchdog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A resumedMeanwhile is a store in which another process resumes the run just before the first append.
type resumedMeanwhile struct {
	watchdog.EventStore
	resume func()
}

func (s *resumedMeanwhile) Append(ctx context.Context, events ...watchdog.Event) error {
	if resume := s.resume; resume != nil {
		s.resume = nil
		resume()
	}
	return s.EventStore.Append(ctx, events...)
}

func TestResumeFails(t *testing.T) {
	inCancelled := func(t *testing.T, test func(b *fixture, k *fakeKeeper)) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			wd := b.attach()
			b.pass(over)
			b.stopped(wd)
			k.kept = nil
			test(b, k)
		})
	}
	stillCancelled := func(b *fixture, k *fakeKeeper) {
		require.Len(b.t, k.kept, 1)
		require.Error(b.t, k.kept[0].Context().Err(), "it is kept no longer")
		require.Empty(b.t, b.events(watchdog.EventResume))
		b.stopped(b.attach())
	}
	t.Run("a run that cannot be kept is not resumed", func(t *testing.T) {
		inCancelled(t, func(b *fixture, k *fakeKeeper) {
			k.keep = func(_ context.Context, w *watchdog.Watchdog) error {
				require.Equal(b.t, noon.Add(over).Truncate(time.Microsecond), w.StartedAt(), "the row names the fresh window")
				return errDiskFull
			}
			_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			stillCancelled(b, k)
		})
	})
	t.Run("a run whose resumption cannot be recorded is kept no longer", func(t *testing.T) {
		inCancelled(t, func(b *fixture, k *fakeKeeper) {
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			stillCancelled(b, k)
		})
	})
	t.Run("an error after the run is resumed says that it is", func(t *testing.T) {
		inCancelled(t, func(b *fixture, k *fakeKeeper) {
			store := &resumedMeanwhile{EventStore: b.store}
			store.resume = func() { b.store.set(func(s *flakyStore) { s.failGet = errDiskFull }) }
			b.cfg.Store = store
			_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			require.ErrorContains(t, err, "the run is resumed")
			require.Error(t, k.kept[0].Context().Err())
		})
	})
	t.Run("a run that another process resumes meanwhile goes on in that window, and is kept in it", func(t *testing.T) {
		inCancelled(t, func(b *fixture, k *fakeKeeper) {
			cfg, other := b.cfg, (*watchdog.Watchdog)(nil)
			store := &resumedMeanwhile{EventStore: b.store}
			store.resume = func() {
				b.clock.step(-minute)
				cfg.Keeper = nil
				other, _ = watchdog.Resume(context.Background(), b.run, cfg)
				b.clock.step(minute)
			}
			b.cfg.Store = store
			wd := b.resume()
			defer other.Close()
			require.Equal(t, other.StartedAt(), wd.StartedAt())
			require.Len(t, b.events(watchdog.EventResume), 1)
			require.Len(t, k.kept, 2)
			require.Same(t, wd, k.kept[1])
			require.Error(t, k.kept[0].Context().Err())
			b.live(wd)
		})
	})
}
