package watchdog_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// An awayStore is a database of events and sessions that can be away: it fails, or is hung until it is back.
type awayStore struct {
	session.Memory
	flaky flakyStore
}

func (s *awayStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.flaky.Append(ctx); err != nil {
		return err
	}
	return s.Memory.Append(context.WithoutCancel(ctx), events...)
}

func (s *awayStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	if err := s.flaky.Append(ctx); err != nil {
		return err
	}
	return s.Memory.Transact(context.WithoutCancel(ctx), exchanges...)
}

// leave has the store away, and returns what brings it back.
func (s *awayStore) leave(hangs bool) (back func()) {
	hang := make(chan struct{})
	s.flaky.set(func(f *flakyStore) {
		if f.fail = errDiskFull; hangs {
			f.fail, f.hang = nil, hang
		}
	})
	return func() {
		s.flaky.set(func(f *flakyStore) { f.fail, f.hang = nil, nil })
		close(hang)
	}
}

// TestPauseWhileStoreIsAway protects that in its own process a pause lasts from its opening to its release, whatever
// the store says meanwhile and whether anybody polls, and that others find it recorded when the store is back.
func TestPauseWhileStoreIsAway(t *testing.T) {
	away := func(name string, test func(t *testing.T, wd *watchdog.Watchdog, store *awayStore, hangs bool)) {
		for _, hangs := range []bool{false, true} {
			for _, kept := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, the store hangs %v, with a keeper %v", name, hangs, kept), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := &awayStore{}
						cfg := watchdog.Config{Store: store, Logger: quiet, Budget: watchdog.Budget{WallClock: time.Hour}}
						if kept {
							cfg.Keeper = runKeeper(t, store)
						}
						wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
						require.NoError(t, err)
						test(t, wd, store, hangs)
						require.NoError(t, wd.Close())
						synctest.Wait()
					})
				})
			}
		}
	}
	away("an approval that closes meanwhile is over", func(t *testing.T, wd *watchdog.Watchdog, store *awayStore, hangs bool) {
		began := time.Now()
		h, err := wd.Hold(t.Context(), "approval", approval)
		require.NoError(t, err)
		after(10 * minute)
		back := store.leave(hangs)
		require.True(t, h.Close())
		after(10 * time.Second)
		back()
		<-wd.Context().Done()
		require.Equal(t, 70*minute, time.Since(began).Truncate(time.Millisecond))
		requireStop(t, wd, watchdog.WallClockExceeded)
		require.Equal(t, 10*minute, wd.Stop().Paused)
		require.Equal(t, 1, countEvents(t, store, watchdog.EventRelease))
		require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
	})
	away("an approval that opens meanwhile goes on", func(t *testing.T, wd *watchdog.Watchdog, store *awayStore, hangs bool) {
		began := time.Now()
		back := store.leave(hangs)
		h, err := wd.Hold(t.Context(), "approval", approval)
		require.NoError(t, err)
		require.Equal(t, began, time.Now(), "it does not wait for the store")
		after(10 * time.Second)
		back()
		after(30 * time.Second) // nobody polls
		require.Equal(t, 1, countEvents(t, store, watchdog.EventHold))
		after(3 * time.Hour)
		require.NoError(t, wd.Context().Err())
		h.Close()
		paused := time.Since(began)
		<-wd.Context().Done()
		require.Equal(t, time.Hour+paused, time.Since(began).Truncate(time.Millisecond))
	})
}

// runKeeper keeps the rows of runs until the test ends.
func runKeeper(t *testing.T, store session.Store) watchdog.Keeper {
	t.Helper()
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: store, Logger: quiet})
	require.NoError(t, err)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- keeper.Run(ctx) }()
	t.Cleanup(func() {
		end()
		require.NoError(t, <-done)
	})
	return keeper
}

// TestPauseOfPoller is TestPauseWhileStoreIsAway for a host that looks by itself: a poll does not judge by what the
// store does not have yet.
func TestPauseOfPoller(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.cfg.PollOnly, b.cfg.Budget = true, watchdog.Budget{WallClock: time.Hour}
		wd := b.attach()
		b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
		h, err := wd.Hold(context.Background(), "approval", approval)
		require.NoError(t, err)
		b.store.set(func(s *flakyStore) { s.fail = nil })
		b.pass(3 * time.Hour)
		b.live(wd)
		require.Len(t, b.events(watchdog.EventHold), 1, "the poll has it recorded")
		require.Equal(t, time.Hour, wd.Remaining())
		b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
		require.True(t, h.Close())
		b.pass(time.Hour)
		b.live(wd)
		b.store.set(func(s *flakyStore) { s.fail = nil })
		b.pass(1)
		require.Equal(t, 3*time.Hour, b.stopped(wd).Paused)
		require.Len(t, b.events(watchdog.EventRelease), 1)
		require.Len(t, b.events(watchdog.EventCancel), 1)
	})
}
