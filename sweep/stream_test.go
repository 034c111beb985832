package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// atOnce has sessions cancelled as soon as they are certain to be stalled.
func (f *fixture) atOnce() {
	f.cfg.StartupDelay, f.cfg.MinAge = watchdog.None, watchdog.None
	f.cfg.StalledThreshold, f.cfg.MaxCancellationsPerRun = time.Second, watchdog.NoLimit
}

// TestStream: what is certain is cancelled at once, whatever else is not.
func TestStream(t *testing.T) {
	for _, beside := range []string{"lives", "is dead"} {
		for _, by := range []string{"Run", "Sweep"} {
			t.Run(fmt.Sprintf("%s cancels the runs of a dead host in five seconds beside one of five minutes that %s", by, beside),
				func(t *testing.T) {
					inBubble(t, func(f *fixture) {
						f.atOnce()
						other := f.newHostOf("other", 1, session.LongestPromise)
						f.newHostOf("dead", 20, time.Second)
						if beside == "lives" {
							defer other.live()()
						}
						f.advance(time.Hour)
						if by == "Run" {
							defer f.run()()
						} else {
							go func() { _, _ = f.sweeper().Sweep(f.Context()) }()
						}
						f.advance(5 * time.Second)
						require.Len(f, f.ended(), 20)
						f.advance(25 * time.Minute)
						require.Equal(f, beside == "lives", f.status("other-000") == session.Active)
					})
				})
		}
	}
	t.Run("a live run that goes silent is found at its interval while another lease is never decided", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.cfg.StartupDelay, f.cfg.Interval = watchdog.None, time.Minute
			f.newHostOf("locked", 1, session.LongestPromise)
			live := f.newHost("live", 1)
			defer live.live()()
			live.signal(true, "live-000")
			f.onLeases = func(all []session.Lease) {
				for i := range all {
					all[i].Locked = all[i].ID == "locked"
				}
			}
			defer f.run()()
			go func() { _, _ = f.sweeper().Sweep(f.Context()) }() // waits for 25 minutes
			f.advance(11 * time.Minute)
			require.Equal(f, []string{"live-000"}, f.ended())
			f.advance(15 * time.Minute)
			require.Equal(f, "locked", f.leaseOf("locked-000"))
			code, _ := f.health()
			require.Equal(f, 200, code)
		})
	})
	t.Run("a host that dies is found dead in four promises, whatever others have promised", func(t *testing.T) {
		for _, promise := range []time.Duration{time.Second, 10 * time.Second, session.LongestPromise} {
			for phase := range racing.Rounds(7, 7) {
				inBubble(t, func(f *fixture) {
					f.atOnce()
					f.cfg.Interval = 24 * time.Hour
					for i, other := range []time.Duration{time.Second, 7 * time.Second, 4 * time.Minute} {
						defer f.newHostOf(fmt.Sprint("other-", i), 0, other).live()()
					}
					h := f.newHostOf("dying", 20, promise)
					dies := h.live()
					defer f.run()()
					f.advance(3*promise + time.Duration(phase)*promise/20)
					dies()
					h.renew()
					f.advance(4 * promise)
					require.Len(f, f.ended(), 20, "a promise of %v, phase %d", promise, phase)
				})
			}
		}
	})
	t.Run("a lease of a second that is begun beside one of minutes is found dead, too", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.atOnce()
			defer f.newHostOf("slow", 0, session.LongestPromise).live()()
			defer f.run()()
			f.advance(time.Hour + time.Second)
			f.newHostOf("dead", 20, time.Second)
			f.advance(8 * time.Second)
			require.Len(f, f.ended(), 20)
		})
	})
	t.Run("a hook that hangs delays neither the looks nor what else has died", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.cfg.StartupDelay = watchdog.None
			f.put("silent", time.Hour)
			f.cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(29 * time.Second); return nil } // fake
			f.newHostOf("dead", 1, time.Second)
			defer f.run()()
			f.advance(4 * time.Second)
			require.Empty(f, f.leaseOf("dead-000"))
			require.True(f, f.sweeper().Stats().Passing)
			f.advance(25 * time.Second)
			require.Equal(f, 2, f.sweeper().Stats().Passes)
		})
	})
}

// TestLiveLeasesAreRead protects the database: a sweeper writes nothing while all processes live.
func TestLiveLeasesAreRead(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.StartupDelay = watchdog.None
		for i := range 5 {
			defer f.newHost(fmt.Sprint("live-", i), 1).live()()
			f.advance(time.Second)
		}
		reads := 0
		f.onObserve = func(context.Context, []string) error { reads++; return nil }
		stop := f.run()
		f.advance(time.Hour - time.Second)
		stop()
		require.Len(f, f.looks, 1, "at the start nothing is known of them")
		require.LessOrEqual(f, reads, 3600/5+30)
		require.Len(f, f.pages, 12)
	})
}

// TestPassOfDeath: when a lease expires Run has a pass, which takes no more than one may.
func TestPassOfDeath(t *testing.T) {
	t.Run("is a pass as any other, and the next one stays where it is", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			var passes []int
			f.cfg.OnPass = func(p sweep.Pass) { passes = append(passes, p.LeasesExpired) }
			f.cfg.StartupDelay = watchdog.None
			dies := f.newHost("dying", 1).live()
			began := time.Now()
			stop := f.run()
			f.advance(time.Minute)
			dies()
			f.advance(time.Minute)
			require.Equal(f, 2, f.sweeper().Stats().Passes)
			require.Equal(f, began.Add(5*time.Minute), f.sweeper().Stats().Next)
			f.advance(3 * time.Minute)
			stop()
			require.Equal(f, 3, f.sweeper().Stats().Passes)
			require.Equal(f, []int{0, 1, 0}, passes)
		})
	})
	t.Run("comes also when another sweeper has found it dead first, and died then", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.atOnce()
			f.newHost("dead", 20)
			defer f.run()()
			f.advance(20 * time.Second)
			_, left, err := f.Memory.ExpireLease(f.Context(), session.Lease{ID: "dead", Beat: 1})
			require.NoError(f, err)
			require.Zero(f, left)
			f.advance(5 * time.Second)
			require.Len(f, f.ended(), 20)
			require.Zero(f, f.sweeper().Stats().LeasesExpired, "the other has counted it")
		})
	})
	t.Run("shares the cap with the pass before it, however many die", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.cfg.StartupDelay, f.cfg.MaxCancellationsPerRun = watchdog.None, 5
			f.putStalled(30)
			for i := range 6 {
				f.newHostOf(fmt.Sprint("dead-", i), 3, time.Duration(i+1)*2*time.Second)
			}
			f.advance(11 * time.Minute)
			defer f.run()()
			f.advance(5*time.Minute - 1)
			stats := f.sweeper().Stats()
			require.Equal(f, 6, stats.LeasesExpired)
			require.Equal(f, 7, stats.Passes)
			require.Equal(f, 5, stats.Cancelled-stats.Lost)
			f.advance(1)
			stats = f.sweeper().Stats()
			require.Equal(f, 10, stats.Cancelled-stats.Lost)
		})
	})
	t.Run("leaves the starts that are due to the next one", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			var starts atomic.Int32
			start := func(context.Context, session.Session) error { starts.Add(1); return errors.New("no worker") }
			f.cfg.StartupDelay, f.cfg.Resume = watchdog.None, sweep.ResumePolicy{Max: 1, Start: start}
			f.put("s-1", time.Hour)
			dies := f.newHost("dying", 1).live()
			defer f.run()()
			f.advance(3 * time.Minute) // it is due again
			dies()
			f.advance(time.Minute)
			require.Equal(f, 2, f.sweeper().Stats().Passes)
			require.EqualValues(f, 1, starts.Load())
			f.advance(time.Minute)
			require.EqualValues(f, 2, starts.Load())
		})
	})
	t.Run("keeps no other from its turn, however many die", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.cfg.StartupDelay, f.cfg.Interval, f.cfg.MaxCancellationsPerRun = watchdog.None, time.Minute, 5
			f.putStalled(30)
			f.onStalled = func(context.Context, session.Query) error { time.Sleep(3 * time.Second); return nil } // fake
			stop := f.run()
			for i := range 150 {
				f.newHostOf(fmt.Sprint("dead-", i), 0, time.Second)
				f.advance(time.Second)
			}
			require.Len(f, f.ended(), 15)
			stop()
			f.advance(3 * time.Second) // for the call that was left behind
		})
	})
	t.Run("that fails is tried again soon", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.cfg.StartupDelay = watchdog.None
			f.newHost("dead", 1)
			f.advance(11 * time.Minute)
			f.onStalled = func(context.Context, session.Query) error {
				if f.sweeper().Stats().Passes == 1 {
					return errors.New("down")
				}
				return nil
			}
			defer f.run()()
			f.advance(30 * time.Second)
			require.Empty(f, f.ended())
			f.advance(time.Second)
			require.Len(f, f.ended(), 1)
		})
	})
	t.Run("comes once for rows that are locked, and takes them when they are free", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.atOnce()
			f.cfg.Interval = time.Minute
			f.newHost("dead", 3)
			var free atomic.Bool
			var calls atomic.Int32
			f.onExpire = func(session.Lease) (int, error) { calls.Add(1); return 0, nil }
			f.Locked = func(runID string) bool { return runID != "dead-001" && !free.Load() }
			defer f.run()()
			f.advance(10*time.Minute - 1)
			require.Equal(f, []string{"dead-001"}, f.ended())
			require.Equal(f, 11, f.sweeper().Stats().Passes)
			require.LessOrEqual(f, calls.Load(), int32(13), "no pass, no call")
			free.Store(true)
			f.advance(time.Minute)
			require.Len(f, f.ended(), 3)
		})
	})
}

// TestOutageBesidePasses: leases that cannot be read or looked at are found again, and expire nobody.
func TestOutageBesidePasses(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.StartupDelay = watchdog.None
		var down atomic.Bool
		var calls atomic.Int32
		f.onObserve = func(context.Context, []string) error {
			if !down.Load() {
				return nil
			}
			calls.Add(1)
			return errors.New("down")
		}
		defer f.newHost("live", 1).live()()
		dies := f.newHost("dying", 1).live()
		defer f.run()()
		f.advance(time.Minute)
		dies()
		f.advance(10 * time.Second)
		down.Store(true) // while the second is a suspect
		f.advance(3 * time.Minute)
		require.LessOrEqual(f, calls.Load(), int32(3*60/5+3*60/10+5), "each is called again at its own time")
		require.Zero(f, f.sweeper().Stats().LeasesExpired)
		f.advance(time.Minute)
		down.Store(false)
		stats := f.sweeper().Stats()
		require.ErrorContains(f, stats.Last.Err, "list the leases: down")
		require.LessOrEqual(f, stats.Errors, 2*(stats.Passes-1), "an outage is one error about the leases in each pass")
		f.advance(45 * time.Second)
		require.Equal(f, 1, f.sweeper().Stats().LeasesExpired)
		require.Equal(f, "live", f.leaseOf("live-000"))
	})
}

// TestNextInStormOfDeaths: passes that have their turn are never overdue, however many processes die meanwhile.
func TestNextInStormOfDeaths(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.StartupDelay, f.cfg.Interval = watchdog.None, time.Minute
		f.onStalled = func(context.Context, session.Query) error { time.Sleep(3 * time.Second); return nil } // fake
		stop := f.run()
		for i := range 300 {
			f.newHostOf(fmt.Sprint("dead-", i), 0, time.Second)
			f.advance(time.Second)
			code, page := f.health()
			require.Equal(f, 200, code, "after %d seconds: %s", i, page)
		}
		stop()
		f.advance(3 * time.Second) // for the call that was left behind
	})
}

// TestEndlessPromise: a lease of another program whose promise is longer than can be waited for holds up no other one.
func TestEndlessPromise(t *testing.T) {
	for _, promise := range []time.Duration{watchdog.NoLimit, watchdog.NoLimit / 2, watchdog.NoLimit / 3} {
		inBubble(t, func(f *fixture) {
			f.atOnce()
			f.newHost("dead", 1)
			f.newHost("endless", 1)
			f.onLeases = func(all []session.Lease) {
				if i := len(all) - 1; all[i].ID == "endless" {
					all[i].Promise = promise
				}
			}
			f.sweeper()
			f.advance(time.Second) // an instant is more than zero
			defer f.run()()
			f.advance(time.Hour)
			require.Equal(f, []string{"dead-000"}, f.ended())
			require.Equal(f, "endless", f.leaseOf("endless-000"))
			require.LessOrEqual(f, len(f.looks), 5)
		})
	}
}
