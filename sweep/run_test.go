package sweep_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// since are the times at which pages were asked for, from one.
func (b *bed) since(began time.Time) (all []time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.pages {
		all = append(all, at.Sub(began))
	}
	return all
}

func TestRun(t *testing.T) {
	t.Run("has its first pass after the startup delay and then one every interval", func(t *testing.T) {
		inBed(t, func(b *bed) {
			began := time.Now()
			stop := b.run()
			require.Equal(b, began.Add(30*time.Second), b.the().Stats().Next)
			b.after(11 * time.Minute)
			stop()
			require.Equal(b, []time.Duration{30 * time.Second, 5*time.Minute + 30*time.Second, 10*time.Minute + 30*time.Second}, b.since(began))
			require.Zero(b, b.the().Stats().Next)
			require.Equal(b, 3, b.the().Stats().Passes)
		})
	})
	t.Run("begins at once without a delay", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.StartupDelay = watchdog.None
			began := time.Now()
			b.run()()
			require.Equal(b, []time.Duration{0}, b.since(began))
		})
	})
	t.Run("puts off the next pass when one takes longer than the interval", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.StartupDelay, b.cfg.Interval, b.cfg.RecordTimeout = watchdog.None, time.Minute, time.Hour
			b.onStalled = func(context.Context, session.Query) error { time.Sleep(7 * time.Minute); return nil }
			began := time.Now()
			stop := b.run()
			b.after(17 * time.Minute)
			require.True(b, b.the().Stats().Running)
			stop()
			b.after(7 * time.Minute) // for the call that was left behind
			require.Equal(b, []time.Duration{0, 8 * time.Minute, 16 * time.Minute}, b.since(began))
		})
	})
	t.Run("is there once at a time, and can be called again", func(t *testing.T) {
		inBed(t, func(b *bed) {
			stop := b.run()
			require.ErrorIs(b, b.the().Run(b.Context()), sweep.ErrRunning)
			stop()
			b.run()()
		})
	})
	t.Run("only waits where the sweeper is disabled, and a pass is refused", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.Disabled = true
			b.putStalled(1)
			stop := b.run()
			b.after(24 * time.Hour)
			_, err := b.the().Sweep(b.Context())
			require.ErrorIs(b, err, sweep.ErrDisabled)
			stop()
			require.Empty(b, b.since(time.Now()))
			require.Zero(b, b.the().Stats().Passes)
		})
	})
	t.Run("logs what went wrong about a session, and nothing that Sweep returns", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(1)
			b.onCancel = func(context.Context, session.Session) error { return errors.New("poisoned") }
			_, err := b.the().Sweep(b.Context())
			require.Error(b, err)
			require.NotContains(b, b.log.String(), "poisoned")
			b.cfg.StartupDelay, b.sweeper = watchdog.None, nil
			b.run()()
			require.Contains(b, b.log.String(), "cancel run s-00: poisoned")
		})
	})
}

func TestStopping(t *testing.T) {
	t.Run("finishes the session in hand and begins no other", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(5)
			b.cfg.StartupDelay = watchdog.None
			b.cfg.StopHook = func(ctx context.Context, _ session.Session) error {
				time.Sleep(10 * time.Second) // the bubble's
				return ctx.Err()
			}
			b.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(ctx context.Context, _ session.Session) error { return ctx.Err() }}
			stop := b.run()
			b.after(5 * time.Second)
			began := time.Now()
			stop()
			require.Equal(b, 5*time.Second, time.Since(began))
			require.Equal(b, []string{"s-00"}, b.ended())
			last := b.the().Stats().Last
			require.ErrorIs(b, last.Err, context.Canceled)
			require.Equal(b, sweep.Tally{Checked: 1, Found: 1, Cancelled: 1, Resumed: 1, Errors: 1}, last.Tally)
			require.Zero(b, b.the().Stats().ConsecutiveFailures, "a stop is no failure")
			require.NotContains(b, b.log.String(), "a pass over the sessions failed")
		})
	})
	t.Run("is bounded though neither the hook nor the database return", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(5)
			free := make(chan struct{})
			b.cfg.StartupDelay = watchdog.None
			b.cfg.StopHook = func(context.Context, session.Session) error { <-free; return nil }
			b.onCancel = func(context.Context, session.Session) error { <-free; return errors.New("late") }
			stop := b.run()
			began := time.Now()
			stop()
			require.Equal(b, (30+1+5+1)*time.Second, time.Since(began))
			close(free)
			synctest.Wait()
			require.Empty(b, b.ended())
		})
	})
	t.Run("does not wait for a page", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.StartupDelay = watchdog.None
			b.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			stop := b.run()
			began := time.Now()
			stop()
			require.Zero(b, time.Since(began))
		})
	})
}

func TestAPassThatIsAskedFor(t *testing.T) {
	t.Run("comes at once while Run waits, and changes nothing about when it sweeps", func(t *testing.T) {
		inBed(t, func(b *bed) {
			began := time.Now()
			stop := b.run()
			b.after(time.Second)
			b.pass()
			b.after(30 * time.Second)
			stop()
			require.Equal(b, []time.Duration{time.Second, 30 * time.Second}, b.since(began))
		})
	})
	t.Run("waits for the one that is under way, and for no longer than its context lasts", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.StartupDelay = watchdog.None
			b.onStalled = func(context.Context, session.Query) error { time.Sleep(3 * time.Second); return nil }
			began := time.Now()
			stop := b.run()
			ctx, cancel := context.WithTimeout(b.Context(), time.Second)
			defer cancel()
			_, err := b.the().Sweep(ctx)
			require.ErrorIs(b, err, context.DeadlineExceeded)
			require.Equal(b, time.Second, time.Since(began))
			b.pass()
			require.Equal(b, 6*time.Second, time.Since(began))
			stop()
		})
	})
	t.Run("is none with a context that has ended", func(t *testing.T) {
		inBed(t, func(b *bed) {
			ctx, cancel := context.WithCancel(b.Context())
			cancel()
			for range 20 { // two ways lead here
				_, err := b.the().Sweep(ctx)
				require.ErrorIs(b, err, context.Canceled)
			}
			require.Empty(b, b.pages)
			require.Zero(b, b.the().Stats().Passes)
		})
	})
	t.Run("is never at the same time as another", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(40)
			var now, most atomic.Int32
			b.cfg.Interval = time.Second
			b.cfg.StopHook = func(context.Context, session.Session) error {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(100 * time.Millisecond) // the bubble's
				now.Add(-1)
				return nil
			}
			stop := b.run()
			var asked sync.WaitGroup
			for range 5 {
				asked.Go(func() {
					_, err := b.the().Sweep(context.Background())
					assert.NoError(b, err)
				})
			}
			asked.Wait()
			b.after(time.Minute)
			stop()
			require.EqualValues(b, 1, most.Load())
			require.Len(b, b.ended(), 40)
		})
	})
}

func TestADatabaseThatFails(t *testing.T) {
	for name, failing := range map[string]func(ctx context.Context) error{
		"is down": func(context.Context) error { return errors.New("connection refused") },
		"is slow": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"panics":  func(context.Context) error { panic("driver") },
	} {
		t.Run(name+": passes back off and come back, and nothing is cancelled meanwhile", func(t *testing.T) {
			inBed(t, func(b *bed) {
				b.putStalled(3)
				var down atomic.Bool
				down.Store(true)
				b.cfg.StartupDelay, b.cfg.RecordTimeout = watchdog.None, time.Millisecond
				b.onStalled = func(ctx context.Context, _ session.Query) error {
					if down.Load() {
						return failing(ctx)
					}
					return nil
				}
				began := time.Now()
				stop := b.run()
				b.after(time.Hour)
				require.Empty(b, b.ended())
				stats := b.the().Stats()
				require.Error(b, stats.Last.Err)
				require.Equal(b, stats.Passes, stats.ConsecutiveFailures)
				require.Equal(b, stats.Passes, stats.Errors)
				down.Store(false)
				b.after(5 * time.Minute)
				stop()
				require.Len(b, b.ended(), 3)
				require.Zero(b, b.the().Stats().ConsecutiveFailures)
				b.requireBackoff(began)
			})
		})
	}
	t.Run("comes back a second later, and the interval is as ever", func(t *testing.T) {
		inBed(t, func(b *bed) {
			var once sync.Once
			b.cfg.StartupDelay = watchdog.None
			b.onStalled = func(context.Context, session.Query) (err error) {
				once.Do(func() { err = errors.New("fails over") })
				return err
			}
			began := time.Now()
			stop := b.run()
			b.after(time.Second)
			retried := b.since(began)[1]
			b.after(5 * time.Minute)
			stop()
			require.Equal(b, retried+5*time.Minute, b.since(began)[2])
		})
	})
	t.Run("while cancels time out: the pass ends after ten, and they are not lost", func(t *testing.T) {
		inBed(t, func(b *bed) {
			names := b.putStalled(30)
			b.cfg.MaxCancellationsPerRun = watchdog.NoLimit
			b.onCancel = func(ctx context.Context, _ session.Session) error { <-ctx.Done(); return ctx.Err() }
			p, err := b.the().Sweep(b.Context())
			require.ErrorIs(b, p.Err, context.DeadlineExceeded)
			require.ErrorIs(b, err, context.DeadlineExceeded)
			require.Equal(b, 10, p.Failed)
			require.Equal(b, 1, b.the().Stats().ConsecutiveFailures)
			b.onCancel = nil
			b.after(5 * time.Minute)
			require.Equal(b, 30, b.pass().Cancelled)
			require.Equal(b, names, b.ended())
		})
	})
	t.Run("in the middle of the pages: what was cancelled is, and the rest comes later", func(t *testing.T) {
		inBed(t, func(b *bed) {
			names := b.putStalled(99)
			for i := range 99 {
				b.put("later-"+names[i], 30*time.Minute)
			}
			b.cfg.MaxCancellationsPerRun = watchdog.NoLimit
			b.onStalled = func(_ context.Context, q session.Query) error {
				if q.After != "" {
					return errors.New("connection lost")
				}
				return nil
			}
			p, err := b.the().Sweep(b.Context())
			require.ErrorContains(b, err, "ask for stalled sessions: connection lost")
			require.Equal(b, 100, p.Cancelled)
			require.Equal(b, 1, p.Errors)
			b.onStalled = nil
			require.Equal(b, 98, b.pass().Cancelled)
		})
	})
}

// requireBackoff checks that pages were asked for after 0.5 to 1, 1 to 2, 2 to 4 seconds and so on, up to the interval.
func (b *bed) requireBackoff(began time.Time) {
	b.Helper()
	pages := b.since(began)
	most := time.Second
	for i := 1; i < len(pages); i++ {
		waited := pages[i] - pages[i-1]
		require.GreaterOrEqual(b, waited, most/2, i)
		require.LessOrEqual(b, waited, most+time.Millisecond, i)
		most = min(2*most, 5*time.Minute)
	}
	require.Greater(b, len(pages), 15)
}
