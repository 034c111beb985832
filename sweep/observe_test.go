package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// seconds returns lengths for comparison.
func seconds(all ...float64) (lengths []time.Duration) {
	for _, s := range all {
		lengths = append(lengths, time.Duration(s*float64(time.Second)))
	}
	return lengths
}

func TestObserve(t *testing.T) {
	subtest(t, "finds a dead host in three promises, and cancels its sessions in the same pass", func(f *fixture) {
		f.put("other", time.Hour)
		h := f.newHost("dead", 2)
		f.advance(11 * time.Minute)
		began := time.Now()
		p := f.pass()
		require.Equal(f, []string{"other cancelled", "dead-000 cancelled", "dead-001 cancelled"}, outcomes(p))
		require.Equal(f, 1, p.LeasesExpired)
		require.Equal(f, seconds(0, 10, 20, 30), f.lookTimes(began))
		require.Equal(f, seconds(0, 30), f.pageTimes(began), "a pass goes through the pages, and then observes")
		require.Equal(f, 11*time.Minute+30*time.Second, p.Cases[1].Silence)
		require.Contains(f, f.log.String(), "its process is dead or cut off")
		require.ErrorIs(f, f.RenewLease(f.Context(), h.lease), session.ErrLeaseExpired)
	})
	subtest(t, "a host that lives takes one look and a read at first, and then none", func(f *fixture) {
		h := f.newHost("live", 3)
		f.advance(time.Hour)
		defer h.live()()
		began := time.Now()
		require.Equal(f, 5*time.Second, f.pass().Duration)
		require.Equal(f, seconds(0), f.lookTimes(began))
		for range 3 {
			f.advance(5 * time.Minute)
			p := f.pass()
			require.Zero(f, p.Duration)
			require.Equal(f, sweep.Tally{}, p.Tally)
		}
		require.Len(f, f.looks, 1)
		require.Zero(f, f.pass().Duration, "it was seen to live a moment ago")
		require.Len(f, f.looks, 1)
		require.Equal(f, "live", f.leaseOf("live-000"))
	})
	subtest(t, "of several hosts with several promises each is looked at once in its own", func(f *fixture) {
		f.newHost("a", 1)
		slow := session.Lease{ID: "slow", Promise: 15 * time.Second, Beat: 1}
		require.NoError(f, f.BeginLease(f.Context(), slow))
		var asked []string
		began := time.Now()
		f.onObserve = func(_ context.Context, suspects []string) error {
			if len(suspects) > 0 {
				asked = append(asked, fmt.Sprint(time.Since(began), suspects))
			}
			return nil
		}
		require.Equal(f, 2, f.pass().LeasesExpired)
		require.Equal(f, []string{
			"0s [a slow]", "10s [a]", "15s [slow]", "20s [a]", "30s [a slow]", "45s [slow]",
		}, asked)
	})
	subtest(t, "a pass of Sweep does not wait for a lease with a longer promise than a keeper may give", func(f *fixture) {
		f.newHost("dead", 1)
		f.onLeases = func(all []session.Lease) { all[0].Promise = session.LongestPromise + 1 }
		require.Zero(f, f.pass().Duration)
		require.Equal(f, "dead", f.leaseOf("dead-000"))
	})
	subtest(t, "a lease without a promise has the shortest one", func(f *fixture) {
		require.NoError(f, f.BeginLease(f.Context(), session.Lease{ID: "foreign", Beat: 1}))
		require.Equal(f, 3*time.Second, f.pass().Duration)
	})
	subtest(t, "a lease with a longer promise than a keeper may give holds up no pass, and is found dead all the same",
		func(f *fixture) {
			f.cfg.MinAge = watchdog.None
			f.newHost("dead", 1)
			f.onLeases = func(all []session.Lease) {
				for i := range all {
					all[i].Promise = time.Hour
				}
			}
			began := time.Now()
			defer f.run()()
			require.Equal(f, 1, f.sweeper().Stats().Passes)
			f.put("other", time.Hour)
			f.advance(5 * time.Minute)
			require.Equal(f, []string{"other"}, f.ended())
			f.advance(3*time.Hour - 5*time.Minute - time.Second)
			require.Zero(f, f.sweeper().Stats().LeasesExpired)
			f.advance(time.Second)
			require.Equal(f, 1, f.sweeper().Stats().LeasesExpired)
			require.Equal(f, seconds(0, 3600, 7200, 10800), f.lookTimes(began))
			require.Equal(f, []string{"other", "dead-000"}, f.ended())
		})
	subtest(t, "its sessions are cancelled when a lease is found dead, whatever others have promised", func(f *fixture) {
		f.newHostOf("slow", 0, session.LongestPromise)
		f.newHost("dead", 20)
		f.advance(11 * time.Minute)
		f.cfg.MaxCancellationsPerRun = watchdog.NoLimit
		var at []time.Duration
		began := time.Now()
		f.onCancel = func(context.Context, session.Session) error { at = append(at, time.Since(began)); return nil }
		require.Equal(f, 2, f.pass().LeasesExpired)
		require.Len(f, at, 20)
		require.Equal(f, 30*time.Second, slices.Max(at))
		require.Equal(f, 15*time.Minute, time.Since(began), "a pass of Sweep observes the other to the end")
	})
	subtest(t, "an expired lease has its sessions taken at the start of the next pass", func(f *fixture) {
		f.newHost("dead", 3)
		f.advance(11 * time.Minute)
		f.cfg.MaxCancellationsPerRun = 1
		locked := true
		f.onExpire = func(l session.Lease) (int, error) {
			if l.Beat = 0; locked { // expires nothing, and says that a row is locked
				return 1, nil
			}
			return 0, nil
		}
		f.onLeases = func(all []session.Lease) { all[0].Expired = len(f.looks) == 4 }
		require.Equal(f, 30*time.Second, f.pass().Duration)
		require.Equal(f, "dead", f.leaseOf("dead-000"))
		locked = false
		p := f.pass()
		require.Zero(f, p.Duration)
		require.Equal(f, []string{"dead-000 cancelled"}, outcomes(p))
		require.Zero(f, p.LeasesExpired, "it was counted before")
	})
	subtest(t, "goes through the pages again with what is left of the cap", func(f *fixture) {
		f.putStalled(3)
		f.newHost("dead", 5)
		f.advance(11 * time.Minute)
		f.cfg.MaxCancellationsPerRun = 5
		p := f.pass()
		require.Equal(f, sweep.Tally{Checked: 5, Found: 5, Cancelled: 5, LeasesExpired: 1}, p.Tally)
	})
	subtest(t, "the end of the context ends it at once", func(f *fixture) {
		f.newHost("dead", 1)
		ctx, cancel := context.WithTimeout(f.Context(), 15*time.Second)
		defer cancel()
		p, err := f.sweeper().Sweep(ctx)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.Equal(f, 15*time.Second, p.Duration)
		require.Equal(f, "dead", f.leaseOf("dead-000"))
	})
}

// TestObserveUncertain: whatever is not certain starts the observation of a lease again.
func TestObserveUncertain(t *testing.T) {
	down := errors.New("down")
	for name, c := range map[string]struct {
		happens func(f *fixture, h *host, look int) error
		took    time.Duration
		expired bool
	}{
		"nothing":                       {nil, 30 * time.Second, true},
		"a renewal before the last":     {renewAt(3), 30 * time.Second, false},
		"a renewal before the second":   {renewAt(1), 10 * time.Second, false},
		"the second look fails":         {failAt(down, 1), 50 * time.Second, true},
		"the third look fails":          {failAt(down, 2), 50 * time.Second, false},
		"all looks fail":                {failAt(down, 0, 1, 2, 3, 4, 5), 50 * time.Second, false},
		"the first look takes longer":   {slowAt(0, 11*time.Second), 41 * time.Second, true},
		"the first look is just fast":   {slowAt(0, 10*time.Second), 40 * time.Second, true},
		"the second takes for promises": {slowAt(1, 45*time.Second), 55 * time.Second, false},
	} {
		subtest(t, name, func(f *fixture) {
			f.cfg.RecordTimeout = time.Minute
			h := f.newHost("a", 1)
			look := -1
			f.onObserve = func(_ context.Context, suspects []string) error {
				if len(suspects) == 0 || c.happens == nil {
					return nil
				}
				look++
				return c.happens(f, h, look)
			}
			p, _ := f.sweeper().Sweep(f.Context())
			require.Equal(f, c.took, p.Duration)
			require.NoError(f, p.Err)
			require.Equal(f, c.expired, f.leaseOf("a-000") == "")
		})
	}
	subtest(t, "a lock on the lease", func(f *fixture) {
		f.newHost("a", 1)
		f.onLeases = func(all []session.Lease) { all[0].Locked = len(f.looks) == 2 }
		require.Equal(f, 50*time.Second, f.pass().Duration)
		require.Empty(f, f.leaseOf("a-000"))
	})
	subtest(t, "a lock when it is to expire", func(f *fixture) {
		f.newHost("a", 1)
		f.onExpire = func(session.Lease) (int, error) { return 0, fmt.Errorf("expire: %w", session.ErrLocked) }
		require.Equal(f, 50*time.Second, f.pass().Duration)
		require.Equal(f, "a", f.leaseOf("a-000"))
		f.onExpire = nil
		require.Equal(f, 1, f.pass().LeasesExpired)
	})
	subtest(t, "what is undecided goes on in the next pass", func(f *fixture) {
		f.newHost("a", 1)
		f.onObserve = func(context.Context, []string) error {
			if len(f.looks) < 5 && len(f.looks) > 0 {
				return down
			}
			return nil
		}
		p := f.failsFor(down)
		require.NoError(f, p.Err)
		f.advance(time.Second)
		p = f.pass()
		require.Equal(f, 1, p.LeasesExpired)
		require.Equal(f, 19*time.Second, p.Duration, "two looks of the pass before count")
	})
	subtest(t, "leases that cannot be listed fail the pass, which cancels what it finds", func(f *fixture) {
		f.putStalled(2)
		f.onObserve = func(context.Context, []string) error { return down }
		p := f.failsFor(down)
		require.ErrorContains(f, p.Err, "list the leases: ")
		require.Equal(f, 2, p.Cancelled)
		require.Equal(f, 1, f.sweeper().Stats().ConsecutiveFailures)
	})
}

func renewAt(at int) func(*fixture, *host, int) error {
	return func(_ *fixture, h *host, look int) error {
		if look == at {
			h.renew()
		}
		return nil
	}
}

func failAt(err error, at ...int) func(*fixture, *host, int) error {
	return func(_ *fixture, _ *host, look int) error {
		if slices.Contains(at, look) {
			return err
		}
		return nil
	}
}

func slowAt(at int, d time.Duration) func(*fixture, *host, int) error {
	return func(_ *fixture, _ *host, look int) error {
		if look == at {
			time.Sleep(d)
		}
		return nil
	}
}

func TestSilenceUnderLease(t *testing.T) {
	subtest(t, "is what the lease vouches for, whatever the database's clock shows", func(f *fixture) {
		h := f.newHost("live", 3)
		f.advance(5 * time.Minute)
		h.signal(false, "live-000")
		h.signal(true, "live-001")
		stop := h.live()
		f.pass()
		f.setClock(24 * time.Hour)
		f.advance(9 * time.Minute)
		require.Empty(f, f.pass().Cases)
		stop()
		f.advance(time.Hour) // not vouched for: the keeper cannot write, and the lease has not expired yet
		h.renewTo(15 * time.Minute)
		require.Empty(f, f.pass().Cases)
		h.renewTo(15*time.Minute + 1)
		f.setClock(time.Hour)
		p := f.pass()
		require.Equal(f, []string{"live-001 cancelled"}, outcomes(p))
		require.Equal(f, 10*time.Minute+1, p.Cases[0].Silence)
		last := f.Clock().Add(-p.Cases[0].Silence).UTC().Format("2006-01-02T15:04:05.000000Z")
		require.Contains(f, string(f.stored("live-001")[1].Payload), `"last_event_at":"`+last)
	})
}

// TestRowBehind protects hung runs from a row of their process that cannot be written, and its run from sweepers.
func TestRowBehind(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.Grace = time.Minute
		h := f.newHost("live", 3)
		for _, runID := range h.runs {
			h.signal(true, runID)
		}
		defer h.live()()
		f.advance(9 * time.Minute)
		h.covered(8*time.Minute, session.RowBehind{RunID: "live-000", Attempt: 1, Written: 0})
		require.Empty(f, f.pass().Cases)
		require.Equal(f, 1, f.sweeper().Stats().Last.Behind)
		h.covered(11*time.Minute, session.RowBehind{RunID: "live-000", Attempt: 1, Written: 0})
		require.Equal(f, []string{"live-001 warned", "live-002 warned"}, outcomes(f.pass()))
		f.advance(2 * time.Minute)
		h.covered(13*time.Minute, session.RowBehind{RunID: "live-000", Attempt: 1}, session.RowBehind{RunID: "live-001", Attempt: 1})
		p := f.pass()
		require.Equal(f, []string{"live-002 cancelled"}, outcomes(p), "the other has woken up in its grace")
		require.Equal(f, 2, p.Behind)
	})
}

// covered renews the lease and vouches up to an instant for all rows but some.
func (h *host) covered(at time.Duration, behind ...session.RowBehind) {
	h.renewing.Lock()
	defer h.renewing.Unlock()
	h.lease.Beat++
	h.lease.Clock, h.lease.Covered, h.lease.Behind = time.Since(h.began), at, behind
	require.NoError(h, h.RenewLease(context.Background(), h.lease))
}

// renewTo renews the lease and vouches up to an instant.
func (h *host) renewTo(vouched time.Duration) {
	h.lease.Beat++
	h.lease.Clock, h.lease.Vouched = time.Since(h.began), vouched
	require.NoError(h, h.RenewLease(context.Background(), h.lease))
}

func TestDryRunWritesNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.newHost("dead", 2)
		f.putStalled(2)
		f.advance(time.Hour)
		f.cfg.DryRun = true
		f.cfg.StopHook = func(context.Context, session.Session) error { f.Error("stopped"); return nil }
		f.onExpire = func(session.Lease) (int, error) { f.Error("expired"); return 0, nil }
		f.onCancel = func(context.Context, session.Session) error { f.Error("cancelled"); return nil }
		f.onClaim = f.onCancel
		f.onLeases = func(all []session.Lease) { all[0].Expired = len(f.pages) > 0 }
		f.cfg.Grace = time.Minute
		for range 2 {
			p := f.pass()
			require.Equal(f, []string{"s-00 would_cancel", "s-01 would_cancel"}, outcomes(p))
			require.Equal(f, sweep.Tally{Checked: 2, Found: 2}, p.Tally)
			require.True(f, p.DryRun)
			require.Zero(f, p.Duration)
		}
		require.Equal(f, 4, strings.Count(f.log.String(), "would be cancelled"))
		require.Empty(f, f.looks)
		require.Empty(f, f.events("s-00"))
		require.Equal(f, "dead", f.leaseOf("dead-000"))
	})
}

// atOnce has sessions cancelled as soon as they are certain to be stalled.
func (f *fixture) atOnce() {
	f.cfg.MinAge = watchdog.None
	f.cfg.StalledThreshold, f.cfg.MaxCancellationsPerRun = time.Second, watchdog.NoLimit
}

// TestStream: what is certain is cancelled at once, whatever else is not.
func TestStream(t *testing.T) {
	subtest(t, "a live run that goes silent is found at its interval while a lease is never decided", func(f *fixture) {
		f.cfg.Interval = time.Minute
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
	subtest(t, "a lease of a second that is begun beside one of minutes is found dead, too", func(f *fixture) {
		f.atOnce()
		defer f.newHostOf("slow", 0, session.LongestPromise).live()()
		defer f.run()()
		f.advance(time.Hour + time.Second)
		f.newHostOf("dead", 20, time.Second)
		f.advance(8 * time.Second)
		require.Len(f, f.ended(), 20)
	})
	subtest(t, "a hook that hangs delays neither the looks nor what else has died", func(f *fixture) {
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
}

// TestLiveLeasesAreRead protects the database: a sweeper writes nothing while all processes live.
func TestLiveLeasesAreRead(t *testing.T) {
	inBubble(t, func(f *fixture) {
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
	subtest(t, "is a pass as any other, and the next one stays where it is", func(f *fixture) {
		var passes []int
		f.cfg.OnPass = func(p sweep.Pass) { passes = append(passes, p.LeasesExpired) }
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
	subtest(t, "comes also when another sweeper has found it dead first, and died then", func(f *fixture) {
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
	subtest(t, "shares the cap with the pass before it, however many die", func(f *fixture) {
		f.cfg.MaxCancellationsPerRun = 5
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
	subtest(t, "leaves the starts that are due to the next one", func(f *fixture) {
		var starts atomic.Int32
		start := func(context.Context, session.Session) error { starts.Add(1); return errors.New("no worker") }
		f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: start}
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
	subtest(t, "keeps no other from its turn, however many die", func(f *fixture) {
		f.cfg.Interval, f.cfg.MaxCancellationsPerRun = time.Minute, 5
		f.putStalled(30)
		f.onStalled = func(context.Context, session.Query) error { time.Sleep(3 * time.Second); return nil } // fake
		stop := f.run()
		for i := range 150 {
			f.newHostOf(fmt.Sprint("dead-", i), 0, time.Second)
			f.advance(time.Second)
			code, page := f.health()
			require.Equal(f, 200, code, "no pass is overdue after %d seconds: %s", i, page)
		}
		require.Len(f, f.ended(), 15)
		stop()
		f.advance(3 * time.Second) // for the call that was left behind
	})
	subtest(t, "that fails is tried again soon", func(f *fixture) {
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
	subtest(t, "comes once for rows that are locked, and takes them when they are free", func(f *fixture) {
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
}

// TestOutageBesidePasses: leases that cannot be read or looked at are found again, and expire nobody.
func TestOutageBesidePasses(t *testing.T) {
	inBubble(t, func(f *fixture) {
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

// TestOwnLimits protects a live run whose own limits of silence are longer than the threshold of the sweepers: they
// leave its end to itself.
func TestOwnLimits(t *testing.T) {
	asksTwice := []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveRetry}
	for name, c := range map[string]struct {
		budget    watchdog.Budget
		poll      bool
		observe   bool
		threshold time.Duration       // of the keeper's RunThreshold
		ended     time.Duration       // after the last sign of life
		by        watchdog.StopReason // whoever ended it
		within    time.Duration       // at the latest
	}{
		"an idle limit": {
			budget: watchdog.Budget{Idle: 20 * time.Second}, ended: 20 * time.Second, by: watchdog.IdleExceeded,
		},
		"a limit of no progress": {
			budget: watchdog.Budget{NoProgress: time.Hour}, ended: time.Hour, by: watchdog.NoProgressExceeded,
		},
		"a ladder": {
			budget: watchdog.Budget{Idle: 20 * time.Second, Ladders: watchdog.Ladders{Idle: asksTwice}},
			ended:  time.Minute, by: watchdog.IdleExceeded,
		},
		"none": {ended: 5 * time.Second, by: watchdog.SessionIdleTimeout},
		"an idle limit that is shorter than the threshold": {
			budget: watchdog.Budget{Idle: 2 * time.Second}, ended: 2 * time.Second, by: watchdog.IdleExceeded,
		},
		"an idle limit that only a poll keeps": {
			budget: watchdog.Budget{Idle: 20 * time.Second}, poll: true, ended: 20 * time.Second, by: watchdog.SessionIdleTimeout,
			within: 40 * time.Second,
		},
		"an idle limit that is only observed": {
			budget: watchdog.Budget{Idle: 20 * time.Second}, observe: true, ended: 5 * time.Second, by: watchdog.SessionIdleTimeout,
		},
		"an idle limit and a threshold of its own": {
			budget: watchdog.Budget{Idle: 20 * time.Second}, threshold: 8 * time.Second, ended: 8 * time.Second,
			by: watchdog.SessionIdleTimeout,
		},
		"an idle limit that never ends it": {
			budget: watchdog.Budget{
				WallClock: 2 * time.Hour, Idle: 20 * time.Second,
				Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
			},
			ended: 2*time.Hour - time.Second, by: watchdog.WallClockExceeded,
		},
	} {
		subtest(t, name, func(f *fixture) {
			keeper, err := session.NewKeeper(session.KeeperConfig{
				Store: f.Memory, Threshold: 5 * time.Second, Logger: f.cfg.Logger,
				RunThreshold: func(string) time.Duration { return c.threshold },
			})
			require.NoError(f, err)
			ctx, stop := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { require.NoError(f, keeper.Run(ctx)) })
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "live", StartedAt: time.Now()}, watchdog.Config{
				Store: f.Memory, Keeper: keeper, Budget: c.budget, PollOnly: c.poll, ObserveOnly: c.observe,
				Logger: f.cfg.Logger,
			})
			require.NoError(f, err)
			f.cfg.StalledThreshold, f.cfg.MinAge = 5*time.Second, watchdog.None
			f.cfg.Interval = time.Second
			stopSweeper := f.run()
			f.advance(time.Second)
			last := time.Now()
			wd.Progress()
			<-wd.Context().Done()
			silent := time.Since(last)
			require.ErrorIs(f, context.Cause(wd.Context()), c.by)
			require.GreaterOrEqual(f, silent, c.ended)
			require.LessOrEqual(f, silent, c.ended+max(c.within, 15*time.Second))
			_ = wd.Close()
			stopSweeper()
			stop()
			running.Wait()
			synctest.Wait()
		})
	}
}
