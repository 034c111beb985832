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

func TestDatabaseFails(t *testing.T) {
	for name, failing := range map[string]func(ctx context.Context) error{
		"is down": func(context.Context) error { return errors.New("connection refused") },
		"is slow": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"panics":  func(context.Context) error { panic("driver") },
	} {
		subtest(t, name+": passes come after growing waits, and cancel nothing until it is back", func(f *fixture) {
			f.putStalled(3)
			var down atomic.Bool
			down.Store(true)
			f.cfg.StartupDelay, f.cfg.RecordTimeout = watchdog.None, time.Millisecond
			f.onStalled = func(ctx context.Context, _ session.Query) error {
				if down.Load() {
					return failing(ctx)
				}
				return nil
			}
			began := time.Now()
			stop := f.run()
			f.advance(time.Hour)
			require.Empty(f, f.ended())
			stats := f.sweeper().Stats()
			require.Error(f, stats.Last.Err)
			require.Equal(f, stats.Passes, stats.ConsecutiveFailures)
			require.Equal(f, stats.Passes, stats.Errors)
			down.Store(false)
			f.advance(5 * time.Minute)
			stop()
			require.Len(f, f.ended(), 3)
			require.Zero(f, f.sweeper().Stats().ConsecutiveFailures)
			f.requireBackoff(began)
		})
	}
	subtest(t, "is back a second later: the next pass comes after the interval", func(f *fixture) {
		var once sync.Once
		f.cfg.StartupDelay = watchdog.None
		f.onStalled = func(context.Context, session.Query) (err error) {
			once.Do(func() { err = errors.New("fails over") })
			return err
		}
		began := time.Now()
		stop := f.run()
		f.advance(time.Second)
		retried := f.pageTimes(began)[1]
		f.advance(5 * time.Minute)
		stop()
		require.Equal(f, retried+5*time.Minute, f.pageTimes(began)[2])
	})
	subtest(t, "cancels time out: the pass ends after ten, and later passes cancel all", func(f *fixture) {
		names := f.putStalled(30)
		f.cfg.MaxCancellationsPerRun = watchdog.NoLimit
		f.onCancel = func(ctx context.Context, _ session.Session) error { <-ctx.Done(); return ctx.Err() }
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, p.Err, context.DeadlineExceeded)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.Equal(f, 10, p.Failed)
		require.Equal(f, 1, f.sweeper().Stats().ConsecutiveFailures)
		f.onCancel = nil
		f.advance(5 * time.Minute)
		require.Equal(f, 30, f.pass().Cancelled)
		require.Equal(f, names, f.ended())
	})
	subtest(t, "fails at the second page: the first is cancelled, and the rest later", func(f *fixture) {
		names := f.putStalled(99)
		for i := range 99 {
			f.put("later-"+names[i], 30*time.Minute)
		}
		f.cfg.MaxCancellationsPerRun = watchdog.NoLimit
		f.onStalled = func(_ context.Context, q session.Query) error {
			if q.After != "" {
				return errors.New("connection lost")
			}
			return nil
		}
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, "ask for stalled sessions: connection lost")
		require.Equal(f, 100, p.Cancelled)
		require.Equal(f, 1, p.Errors)
		f.onStalled = nil
		require.Equal(f, 98, f.pass().Cancelled)
	})
}

// requireBackoff checks that the waits between pages were 0.5 to 1 second, 1 to 2, 2 to 4 and so on, up to the
// interval.
func (f *fixture) requireBackoff(began time.Time) {
	f.Helper()
	pages := f.pageTimes(began)
	most := time.Second
	for i := 1; i < len(pages); i++ {
		waited := pages[i] - pages[i-1]
		require.GreaterOrEqual(f, waited, most/2, i)
		require.LessOrEqual(f, waited, most+time.Millisecond, i)
		most = min(2*most, 5*time.Minute)
	}
	require.Greater(f, len(pages), 15)
}
