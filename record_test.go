package watchdog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// over is the default budget and one nanosecond.
const over = watchdog.DefaultWallClock + 1

func TestStoreHangs(t *testing.T) {
	ends := map[string]func(wd *watchdog.Watchdog){
		"a limit that is exceeded": nil, "a cancel": func(wd *watchdog.Watchdog) { _, _ = wd.Cancel(noOutput) },
	}
	for what, end := range ends {
		for name, ignoresContext := range map[string]bool{" and heeds its context": false, " and heeds nothing": true} {
			runFixture(t, what+name, func(b *fixture) {
				b.cfg.Budget.WarnAt = []float64{}
				wd, hang, decided := b.attach(), make(chan struct{}), noon
				b.store.set(func(s *flakyStore) { s.hang, s.ignoresContext = hang, ignoresContext })
				if end != nil {
					go end(wd)
				} else {
					b.pass(over)
					decided = noon.Add(over).Truncate(time.Microsecond)
				}
				synctest.Wait()
				b.pass(watchdog.DefaultRecordTimeout - 1)
				require.NoError(b.t, wd.Context().Err(), "record, then cancel")
				b.pass(1)
				require.Error(b.t, wd.Context().Err())
				b.store.set(func(s *flakyStore) { s.hang = nil })
				close(hang)
				synctest.Wait()
				require.Equal(b.t, decided, wd.Stop().FiredAt, "when it was decided")
				require.NoError(b.t, wd.Close())
				require.Len(b.t, b.events(watchdog.EventCancel), 1)
			})
		}
	}
	for name, look := range map[string]func(wd *watchdog.Watchdog) *watchdog.Stop{
		"a poll":         (*watchdog.Watchdog).Stop,
		"another cancel": func(wd *watchdog.Watchdog) *watchdog.Stop { stop, _ := wd.Cancel(noOutput); return stop },
	} {
		runFixture(t, name+" waits for the record, so that every reader sees one stop", func(b *fixture) {
			b.cfg.Budget.WarnAt = []float64{}
			wd, hang, found := b.attach(), make(chan struct{}), make(chan *watchdog.Stop, 1)
			b.store.set(func(s *flakyStore) { s.hang = hang })
			b.pass(over)
			go func() { found <- look(wd) }()
			synctest.Wait()
			require.Empty(b.t, found)
			close(hang)
			require.Same(b.t, <-found, b.stopped(wd))
		})
	}
}

// TestPending protects the stop from what the store does not take: no number of others keeps it from a store that is
// slow.
func TestPending(t *testing.T) {
	for _, pollOnly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, cfg := &flakyStore{}, asked
			hooked := &hookedStore{EventStore: store, append: refusing(watchdog.EventWait)}
			cfg.Store, cfg.Logger, cfg.PollOnly = hooked, quiet, pollOnly
			wd := guard(t, cfg)
			for range 20 {
				after(minute + 1)
				wd.Fired()
			}
			store.set(func(s *flakyStore) { s.fail = errDiskFull })
			_, err := wd.Cancel(noOutput)
			require.NoError(t, err)
			synctest.Wait()
			store.set(func(s *flakyStore) { s.fail = nil })
			hooked.append = func(events []watchdog.Event) error {
				time.Sleep(time.Second)
				return refusing(watchdog.EventWait)(events)
			}
			began := time.Now()
			require.Error(t, wd.Close())
			require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout)
			require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
			time.Sleep(time.Minute) // what Close left behind
			hooked.append = nil
		})
	}
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

// TestRetryRace has runs on the machine's clock, whose lanes share the one timer of all, lose events and close at
// the same time. All is recorded in the end, once.
func TestRetryRace(t *testing.T) {
	store := &tripStore{}
	var wait sync.WaitGroup
	all := make([]*watchdog.Watchdog, 40)
	for i := range all {
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: fmt.Sprint("s-", i), StartedAt: time.Now()},
			watchdog.Config{Store: store, Logger: quiet})
		require.NoError(t, err)
		all[i] = wd
	}
	store.leave(true)
	for i, wd := range all {
		wait.Go(func() {
			h := openHold(t, wd, "approval", approval)
			h.Close()
			switch i % 4 {
			case 0:
				_ = wd.Close()
			case 1:
				_, err := wd.Cancel(noOutput)
				require.NoError(t, err)
			case 2:
				wd.Fired()
			}
		})
	}
	time.AfterFunc(300*time.Millisecond, func() { store.leave(false) })
	wait.Wait()
	open := func() (n int) {
		for i := range all {
			if i%4 != 0 {
				n += 2
			}
		}
		return n
	}()
	require.Eventually(t, func() bool {
		return recordedIn(t, &store.Memory, all, watchdog.EventHold)+
			recordedIn(t, &store.Memory, all, watchdog.EventRelease) >= open
	}, 20*time.Second, 20*time.Millisecond, "nobody polls")
	for i, wd := range all {
		wait.Go(func() {
			if err := wd.Close(); err != nil {
				t.Error(i, err)
			}
		})
	}
	wait.Wait()
	require.Equal(t, len(all), recordedIn(t, &store.Memory, all, watchdog.EventHold))
	require.Equal(t, len(all), recordedIn(t, &store.Memory, all, watchdog.EventRelease))
	require.Equal(t, 10, recordedIn(t, &store.Memory, all, watchdog.EventCancel))
}
