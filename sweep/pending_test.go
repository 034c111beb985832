package sweep_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// TestPoisonedSession: a session whose cancel always fails.
func TestPoisonedSession(t *testing.T) {
	subtest(t, "holds up no other, and is tried at growing intervals", func(f *fixture) {
		names := f.putStalled(31)
		var tries []time.Duration
		began := time.Now()
		f.cfg.StartupDelay, f.cfg.Interval = watchdog.None, time.Hour
		f.onCancel = func(_ context.Context, s session.Session) error {
			if s.RunID != "s-00" {
				return nil
			}
			tries = append(tries, time.Since(began))
			return errors.New("poisoned")
		}
		stop := f.run()
		f.advance(2*time.Hour + time.Minute)
		require.Equal(f, names[1:], f.ended())
		f.advance(40 * time.Hour)
		stop()
		require.Equal(f, []time.Duration{0, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}, tries[:5])
		for i := 6; i < len(tries); i++ {
			require.Equal(f, 6*time.Hour, tries[i]-tries[i-1], "but not too late")
		}
	})
	subtest(t, "starts from nothing when it has woken up and stalled again", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Interval = 24 * time.Hour
		f.onCancel = func(context.Context, session.Session) error { return errors.New("poisoned") }
		_, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, "poisoned")
		f.wake("s-1")
		f.onCancel = nil
		f.advance(11 * time.Minute)
		require.Equal(f, []string{"s-1 cancelled"}, outcomes(f.pass()))
	})
	subtest(t, "starts from nothing when it was active under its lease", func(f *fixture) {
		h := f.newHost("live", 1)
		f.cfg.Interval = 24 * time.Hour
		stalls := func() {
			h.signal(true, "live-000")
			f.advance(11 * time.Minute)
			h.renew()
		}
		f.onCancel = func(context.Context, session.Session) error { return errors.New("poisoned") }
		f.advance(time.Minute)
		stalls()
		defer h.live()()
		_, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, "poisoned")
		f.onCancel = nil
		stalls()
		require.Equal(f, []string{"live-000 cancelled"}, outcomes(f.pass()))
	})
	subtest(t, "is forgotten when it has ended, and when it is cancelled at last", func(f *fixture) {
		f.putStalled(2)
		f.onCancel = func(context.Context, session.Session) error { return errors.New("poisoned") }
		_, err := f.sweeper().Sweep(f.Context())
		require.Error(f, err)
		require.Equal(f, 2, f.sweeper().Remembered())
		f.finish("s-00")
		f.onCancel = nil
		f.pass()
		require.Equal(f, 1, f.sweeper().Remembered())
		f.advance(5 * time.Minute)
		require.Equal(f, 1, f.pass().Cancelled)
		require.Zero(f, f.sweeper().Remembered())
	})
	subtest(t, "is forgotten in the end though no pass sees every stalled session", func(f *fixture) {
		f.putStalled(60)
		f.cfg.MaxCancellationsPerRun = 1
		f.onCancel = func(_ context.Context, s session.Session) error {
			if s.RunID == "s-00" {
				return errors.New("poisoned")
			}
			return nil
		}
		_, err := f.sweeper().Sweep(f.Context())
		require.Error(f, err)
		f.finish("s-00")
		f.pass()
		require.Equal(f, 1, f.sweeper().Remembered())
		f.advance(25 * time.Hour)
		f.pass()
		require.Zero(f, f.sweeper().Remembered())
	})
	subtest(t, "behind 1,500 that fail at once, one is cancelled in the first pass", func(f *fixture) {
		f.poison(1500)
		f.put("good", 20*time.Minute)
		f.cfg.StartupDelay = watchdog.None
		stop := f.run()
		require.Equal(f, []string{"good"}, f.ended())
		require.Zero(f, f.sweeper().Stats().ConsecutiveFailures)
		f.put("later", 20*time.Minute)
		f.advance(5 * time.Minute)
		stop()
		require.Equal(f, []string{"good", "later"}, f.ended(), "each pause is over, and they are tried again")
		require.Equal(f, 2, f.sweeper().Stats().Passes)
	})
	subtest(t, "behind 1,500 that fail slowly, one is cancelled in the second pass", func(f *fixture) {
		f.poison(1500)
		poisoned := f.onCancel
		f.onCancel = func(ctx context.Context, s session.Session) error {
			time.Sleep(30 * time.Millisecond)
			return poisoned(ctx, s)
		}
		f.put("good", 20*time.Minute)
		f.cfg.StartupDelay = watchdog.None
		stop := f.run()
		f.advance(40 * time.Second)
		require.ErrorContains(f, f.sweeper().Stats().Last.Err, "1000 sessions in a row failed, the last: cancel run s-999")
		require.Equal(f, 1, f.sweeper().Stats().Passes)
		f.advance(20 * time.Second)
		stop()
		require.Equal(f, []string{"good"}, f.ended())
		require.Equal(f, 2, f.sweeper().Stats().Passes)
	})
	subtest(t, "behind 150 that fail only at their timeout, one is cancelled when each of them has had its turn",
		func(f *fixture) {
			f.poison(150)
			poisoned, tries := f.onCancel, map[string]int{}
			var mu sync.Mutex // of tries
			f.onCancel = func(ctx context.Context, s session.Session) error {
				mu.Lock()
				tries[s.RunID]++
				mu.Unlock()
				if err := poisoned(ctx, s); err != nil {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
			f.put("good", 20*time.Minute)
			f.cfg.StartupDelay = watchdog.None
			stop := f.run()
			f.advance(150 * 6 * time.Second) // 5 s each, and a little for those that are tried again, and for the waits
			f.advance(5 * time.Minute)
			require.Equal(f, []string{"good"}, f.ended())
			f.advance(30 * time.Hour)
			stop()
			mu.Lock()
			defer mu.Unlock()
			require.Len(f, tries, 151)
			for runID, n := range tries {
				if runID != "good" {
					require.Greater(f, n, 1, "%s is tried again", runID)
				}
			}
		})
	subtest(t, "of many the pauses do not grow while nothing works", func(f *fixture) {
		names := f.putStalled(12)
		f.cfg.StartupDelay = watchdog.None
		var writable atomic.Bool
		f.onCancel = func(context.Context, session.Session) error {
			if !writable.Load() {
				return errors.New("read-only transaction")
			}
			return nil
		}
		stop := f.run()
		require.ErrorContains(f, f.sweeper().Stats().Last.Err, "12 sessions in a row failed, the last: cancel run s-11")
		require.Equal(f, 1, f.sweeper().Stats().ConsecutiveFailures)
		f.advance(10 * time.Hour)
		writable.Store(true)
		f.advance(10 * time.Minute)
		stop()
		require.Equal(f, names, f.ended())
	})
}

// poison adds sessions that were silent for longest and whose cancels fail.
func (f *fixture) poison(count int) {
	for _, name := range f.putStalled(count) {
		s := f.get(name)
		s.LastEventAt = s.LastEventAt.Add(-24 * time.Hour)
		s.CreatedAt = s.LastEventAt
		f.row(s)
	}
	f.onCancel = func(_ context.Context, s session.Session) error {
		if time.Since(s.LastEventAt) > 12*time.Hour {
			return errors.New("poisoned")
		}
		return nil
	}
}
