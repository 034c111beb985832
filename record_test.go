package watchdog_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// over is the default budget and one nanosecond.
const over = watchdog.DefaultWallClock + 1

func TestStoreFails(t *testing.T) {
	runFixture(t, "a store that panics is a store that fails", func(b *fixture) {
		b.cfg.Store = &lateReader{EventStore: b.store, before: func() { panic("nil map") }}
		wd := b.attach()
		b.pass(over)
		b.stopped(wd)
		require.ErrorContains(b.t, wd.Close(), "panicked with a string")
	})
	runFixture(t, "a store that cannot be read at the attach is an error: nobody knows whether the run may go on", func(b *fixture) {
		b.store.set(func(s *flakyStore) { s.failGet = errDiskFull })
		_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
		require.ErrorIs(b.t, err, errDiskFull)
	})
}

func TestStoreHangs(t *testing.T) {
	for name, ignoresContext := range map[string]bool{"and heeds its context": false, "and heeds nothing": true} {
		runFixture(t, name, func(b *fixture) {
			b.cfg.Budget.WarnAt = []float64{}
			wd := b.attach()
			hang := make(chan struct{})
			b.store.set(func(s *flakyStore) { s.hang, s.ignoresContext = hang, ignoresContext })
			b.pass(over)
			b.pass(watchdog.DefaultRecordTimeout - 1)
			require.NoError(b.t, wd.Context().Err(), "record, then cancel")
			b.pass(1)
			require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
			b.store.set(func(s *flakyStore) { s.hang = nil })
			close(hang)
			synctest.Wait()
			b.stopped(wd)
			require.NoError(b.t, wd.Close())
			require.Len(b.t, b.events(watchdog.EventCancel), 1)
		})
	}
	runFixture(t, "a poll waits for the record, so that every reader sees one stop", func(b *fixture) {
		b.cfg.Budget.WarnAt = []float64{}
		wd := b.attach()
		hang := make(chan struct{})
		b.store.set(func(s *flakyStore) { s.hang = hang })
		b.pass(over)
		polled := make(chan *watchdog.Stop, 1)
		go func() { polled <- wd.Stop() }()
		synctest.Wait()
		require.Empty(b.t, polled)
		close(hang)
		require.Same(b.t, <-polled, b.stopped(wd))
	})
}

// A refusingStore refuses one kind of event, whatever it comes with.
type refusingStore struct {
	flakyStore
	kind string
	slow atomic.Int64 // how long an append takes
}

var errRefused = errors.New("column too short")

func (s *refusingStore) Append(ctx context.Context, events ...watchdog.Event) error {
	time.Sleep(time.Duration(s.slow.Load()))
	for _, e := range events {
		if e.Type == s.kind {
			return errRefused
		}
	}
	return s.flakyStore.Append(ctx, events...)
}

// TestPending protects the stop, and then the newest of the rest, from what the store does not take.
func TestPending(t *testing.T) {
	t.Run("one that is refused for good keeps no other from the store", func(t *testing.T) {
		for _, pollOnly := range []bool{false, true} {
			inFixture(t, func(b *fixture) {
				store := &refusingStore{kind: watchdog.EventRetry}
				b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget.Idle, b.cfg.Budget.Ladders.Idle = store, pollOnly, 10*minute,
					[]watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}
				wd := b.attach()
				b.pass(10*minute + 1)
				wd.Fired()
				store.set(func(s *flakyStore) { s.fail = errDiskFull })
				b.pass(10*minute + 1)
				wd.Fired()
				b.pass(10*minute + 1)
				wd.Fired()
				requireStop(t, wd, watchdog.IdleExceeded)
				synctest.Wait()
				store.set(func(s *flakyStore) { s.fail = nil })
				wd.Fired()
				synctest.Wait()
				require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
				require.Equal(t, 1, countEvents(t, store, watchdog.EventUnstuck))
				require.Equal(t, 1, countEvents(t, store, watchdog.EventWarning), "the decision and its directive are one")
				err := wd.Close()
				require.ErrorIs(t, err, errRefused)
				require.ErrorContains(t, err, "2 of its events are not recorded, the last a runtime.watchdog.retry")
			})
		}
	})
	t.Run("nor does any number of them keep the stop from a store that is slow", func(t *testing.T) {
		for _, pollOnly := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store, cfg := &refusingStore{kind: watchdog.EventWait}, asked
				cfg.Store, cfg.Logger, cfg.PollOnly = store, quiet, pollOnly
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
				require.NoError(t, err)
				for range 20 {
					after(minute + 1)
					wd.Fired()
				}
				store.set(func(s *flakyStore) { s.fail = errDiskFull })
				_, err = wd.Cancel(noOutput)
				require.NoError(t, err)
				synctest.Wait()
				store.set(func(s *flakyStore) { s.fail = nil })
				store.slow.Store(int64(time.Second))
				began := time.Now()
				require.Error(t, wd.Close())
				require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout)
				require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
				time.Sleep(time.Minute) // what Close left behind
			})
		}
	})
	t.Run("of too many the newest are kept, the stop among them", func(t *testing.T) {
		inBubble(t, asked, func(wd *watchdog.Watchdog, store *flakyStore) {
			store.set(func(s *flakyStore) { s.fail = errDiskFull })
			after(100*minute + 100)
			wd.Progress() // not there in time
			requireStop(t, wd, watchdog.WallClockExceeded)
		})
		cfg := asked
		cfg.Budget.WallClock = 3 * time.Hour
		inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
			store.set(func(s *flakyStore) { s.fail = errDiskFull })
			after(100*minute + 100)
			_, err := wd.Cancel(noOutput)
			require.NoError(t, err)
			require.ErrorIs(t, wd.Close(), errDiskFull)
			store.set(func(s *flakyStore) { s.fail = nil })
			require.NoError(t, wd.Close())
			require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
			require.Equal(t, 63, countEvents(t, store, watchdog.EventWait))
			kept := payloads(t, store, watchdog.EventWait)
			require.Contains(t, kept, `"attempt":100,`)
			require.Contains(t, kept, `"attempt":38,`)
			require.NotContains(t, kept, `"attempt":37,`)
		})
	})
}

// TestMaxStops protects that a run which is stopped again and again is not resumed for ever.
func TestMaxStops(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.MaxStops = 3
		wd := f.attach()
		for n := range 2 {
			f.pass(5 * time.Hour)
			require.NotNil(t, wd.Stop(), n)
			require.NoError(t, wd.Close())
			wd = f.resume()
		}
		f.pass(5 * time.Hour)
		require.NoError(t, wd.Close())
		before := len(f.events(watchdog.EventResume))
		_, err := watchdog.Resume(context.Background(), f.run, f.cfg)
		require.ErrorIs(t, err, watchdog.ErrFailing)
		require.ErrorContains(t, err, "3 times in a row, at last by watchdog_wall_clock_exceeded")
		require.Len(t, f.events(watchdog.EventResume), before, "nothing is recorded")

		f.cfg.MaxStops = 4
		wd = f.resume()
		require.NoError(t, wd.Complete())
		require.NoError(t, wd.Close())
		f.cfg.MaxStops = 1
		wd = f.resume() // the row ended
		f.pass(5 * time.Hour)
		require.NoError(t, wd.Close())
		_, err = watchdog.Resume(context.Background(), f.run, f.cfg)
		require.ErrorIs(t, err, watchdog.ErrFailing)
		f.cfg.MaxStops = watchdog.NoLimit
		f.resume()
	})
	inFixture(t, func(f *fixture) {
		f.cfg.MaxStops = -1
		_, err := watchdog.New(context.Background(), f.run, f.cfg)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "MaxStops is -1")
	})
}
