package watchdog_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestSync(t *testing.T) {
	for name, store := range map[string]func(b *fixture) watchdog.EventStore{
		"in memory":               func(*fixture) watchdog.EventStore { return &watchdog.Memory{} },
		"that is waited for":      func(b *fixture) watchdog.EventStore { return b.store },
		"of a run that is polled": func(b *fixture) watchdog.EventStore { b.cfg.PollOnly = true; return b.store },
	} {
		runFixture(t, "another process's cancel ends the run with the stored stop, from a store "+name, func(b *fixture) {
			b.cfg.Store = store(b)
			wd, sweeper := b.attach(), b.attach()
			stop, err := wd.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Nil(b.t, stop)
			b.live(wd)
			first := b.cancelled(sweeper,
				watchdog.Cancellation{Reason: watchdog.SessionIdleTimeout, Elapsed: time.Hour, Budget: 10 * minute})
			b.pass(minute)
			stop, err = wd.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Equal(b.t, first, stop)
			require.Same(b.t, stop, requireStop(b.t, wd, watchdog.SessionIdleTimeout))
			again, err := wd.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Same(b.t, stop, again)
			require.NoError(b.t, wd.Close())
			require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, watchdog.EventCancel))
		})
	}
	runFixture(t, "the readers of directives are told, once", func(b *fixture) {
		wd, sweeper := b.attach(), b.attach()
		told := make(chan watchdog.StopReason, 16)
		wd.Subscribe(func(d watchdog.Directive) { told <- d.Reason })
		b.cancelled(sweeper, noOutput)
		for range 2 {
			_, err := wd.Sync(b.t.Context())
			require.NoError(b.t, err)
		}
		synctest.Wait()
		require.Equal(b.t, watchdog.CommandNoOutput, <-told)
		require.Empty(b.t, told)
		d, ok := wd.Poll()
		require.True(b.t, ok)
		require.Equal(b.t, watchdog.DirectiveCancel, d.Kind)
	})
	runFixture(t, "a run that is only observed ends by it too, as the next attach would", func(b *fixture) {
		sweeper := b.attach()
		b.cfg.ObserveOnly = true
		wd := b.attach()
		b.cancelled(sweeper, noOutput)
		_, err := wd.Sync(b.t.Context())
		require.NoError(b.t, err)
		requireStop(b.t, wd, watchdog.CommandNoOutput)
		requireStop(b.t, b.attach(), watchdog.CommandNoOutput)
	})
	runFixture(t, "nor is one that ends while the store is read", func(b *fixture) {
		hook := &hookedStore{EventStore: b.store}
		b.cfg.Store = hook
		wd, sweeper := b.attach(), b.attach()
		b.cancelled(sweeper, noOutput)
		hook.read = func() error { return wd.Close() }
		_, err := wd.Sync(b.t.Context())
		require.ErrorIs(b.t, err, watchdog.ErrEnded)
		require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.ErrClosed)
		_, fired := wd.Fired()
		require.False(b.t, fired)
	})
}

func TestSyncStoreFails(t *testing.T) {
	runFixture(t, "where it ignores its context besides, the caller's context ends the wait for it", func(b *fixture) {
		hang := make(chan struct{})
		hook := &hookedStore{EventStore: b.store}
		b.cfg.Store = hook
		wd := b.attach()
		hook.read = func() error { <-hang; return nil }
		ctx, end := context.WithCancelCause(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := wd.Sync(ctx)
			failed <- err
		}()
		synctest.Wait()
		end(errHostGone)
		err := <-failed
		require.ErrorIs(b.t, err, errHostGone)
		require.ErrorIs(b.t, err, context.Canceled)
		close(hang)
		synctest.Wait()
	})
	runFixture(t, "and the run's limits go on while it hangs", func(b *fixture) {
		b.cfg.RecordTimeout, b.cfg.Budget.WarnAt = minute, []float64{}
		hook := &hookedStore{EventStore: b.store}
		b.cfg.Store = hook
		wd := b.attach()
		b.pass(watchdog.DefaultWallClock - time.Second)
		hang := make(chan struct{})
		hook.read = func() error { <-hang; return nil }
		heeded := make(chan *watchdog.Stop, 1)
		go func() {
			stop, _ := wd.Sync(context.Background())
			heeded <- stop
		}()
		synctest.Wait()
		b.pass(time.Second + 1)
		close(hang)
		require.Same(b.t, <-heeded, b.stopped(wd), "the limit's, which waits for the store behind it")
		require.Len(b.t, b.events(watchdog.EventCancel), 1)
	})
}

// TestSyncExtension protects an extension from a sync that comes between its append and its return.
func TestSyncExtension(t *testing.T) {
	inFixture(t, func(b *fixture) {
		var wd *watchdog.Watchdog
		b.cfg.PollOnly = true
		b.cfg.Store = &watchdog.Memory{}
		wd = b.attach()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { wd.Extend(minute) })
			all.Go(func() { wd.Sync(context.Background()) })
		}
		all.Wait()
		require.Equal(b.t, 4*time.Hour+100*minute, wd.Remaining())
	})
}

// staleStore reads as one that knows of nothing yet.
type staleStore struct{ watchdog.EventStore }

func (staleStore) Read(context.Context, string, string) ([]watchdog.Event, error) { return nil, nil }

func TestSyncOlderState(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.cfg.Store = staleStore{b.store}
		wd := b.attach()
		require.NoError(t, wd.Extend(time.Hour))
		_, err := wd.Sync(b.t.Context())
		require.NoError(t, err)
		require.Equal(t, 5*time.Hour, wd.Remaining())
	})
}
