package session_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// leases returns all leases, past the hook.
func (f *fixture) leases() []session.Lease {
	f.Helper()
	all, err := f.db.now().ObserveLeases(context.Background(), nil)
	require.NoError(f, err)
	return all
}

// expire expires a lease as a sweeper does that has found its process dead.
func (f *fixture) expire(id string) {
	f.Helper()
	expired, _, err := f.db.Memory.ExpireLease(context.Background(), f.lease(id))
	require.NoError(f, err)
	require.True(f, expired)
}

// stalled returns the runs that a sweeper with the default threshold finds.
func (f *fixture) stalled() (runIDs []string) {
	f.Helper()
	page, err := f.db.now().Stalled(context.Background(), session.Query{Threshold: 10 * time.Minute, Limit: 100})
	require.NoError(f, err)
	for _, s := range page.Sessions {
		runIDs = append(runIDs, s.RunID)
	}
	return runIDs
}

func TestLease(t *testing.T) {
	running(t, "there is one for all runs of a process, renewed three times in each promise", func(f *fixture) {
		require.Empty(f, f.leases(), "there is no run yet")
		for i := range 10 {
			f.attach(name(i))
		}
		f.advance(10 * session.DefaultPromise)
		all := f.leases()
		require.Len(f, all, 1)
		require.Equal(f, "here", all[0].Host)
		require.Equal(f, session.DefaultPromise, all[0].Promise)
		require.InDelta(f, 31, all[0].Beat, 1)
		require.InDelta(f, 100, all[0].Clock.Seconds(), 4)
		require.InDelta(f, all[0].Clock.Seconds(), all[0].Vouched.Seconds(), 2*awake.Seconds(), "looked at, and then renewed")
		for i := range 10 {
			require.Equal(f, all[0].ID, f.row(name(i)).Lease)
		}
	})
	subtest(t, "a renewal takes no longer than the promise, whatever the record timeout is", func(f *fixture) {
		f.cfg.Promise, f.cfg.RecordTimeout = session.ShortestPromise, time.Minute
		f.start()
		f.attach("s-1")
		hung := 0
		f.db.onCall(func(ctx context.Context, call string) error {
			if call != "RenewLease" || hung > 0 {
				return nil
			}
			hung++
			<-ctx.Done()
			return ctx.Err()
		})
		f.advance(session.ShortestPromise/3 + time.Millisecond)
		require.Equal(f, 1, hung)
		before := f.leases()[0]
		f.advance(session.ShortestPromise + session.ShortestPromise/3)
		after := f.leases()[0]
		require.Greater(f, after.Beat, before.Beat)
		require.LessOrEqual(f, after.RenewedAt.Sub(before.RenewedAt), 2*session.ShortestPromise,
			"after three the process is taken for dead")
		f.db.onCall(nil)
	})
	subtest(t, "a keeper that ends gives it up, and what is left is judged by the database's clock", func(f *fixture) {
		f.cfg.RunThreshold = func(string) time.Duration { return time.Minute }
		stop := f.run(f.keeper())
		wd := f.attach("s-1")
		f.advance(30 * time.Second)
		wd.Activity()
		last := time.Now()
		f.advance(20 * time.Second)
		stop()
		require.Empty(f, f.leases())
		row := f.row("s-1")
		require.Empty(f, row.Lease)
		require.Equal(f, time.Minute, row.Threshold)
		require.WithinDuration(f, last, row.LastEventAt, time.Millisecond)
		f.advance(41 * time.Second)
		require.Equal(f, []string{"s-1"}, f.stalled())
	})
	subtest(t, "a keeper that ends in the middle of a renewal gives it up, too", func(f *fixture) {
		stop := f.run(f.keeper())
		wd := f.attach("s-1")
		f.advance(session.DefaultPromise)
		f.db.hang("RenewLease")
		f.advance(session.DefaultPromise/3 + time.Second)
		require.NoError(f, wd.Close())
		stop()
		require.Empty(f, f.leases())
	})
	subtest(t, "that cannot be begun fails the attach", func(f *fixture) {
		f.db.fail("BeginLease")
		_, err := f.try("s-1", f.config(f.keeper()))
		require.ErrorIs(f, err, errDown)
		require.ErrorContains(f, err, "begin a lease")
		f.db.onCall(nil)
		f.attach("s-1")
	})
	subtest(t, "of many runs that begin at once there is one", func(f *fixture) {
		f.db.delay("BeginLease", time.Second)
		f.start()
		for i := range 20 {
			go f.attach(name(i))
		}
		f.advance(2 * time.Second)
		require.Equal(f, 20, f.keeper().Live())
		require.Len(f, f.leases(), 1)
	})
}

// TestOutageOfIdleRuns protects operators of a host whose runs have nothing new: it writes nothing but its lease.
func TestOutageOfIdleRuns(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		f.attach("s-1")
		f.advance(5 * time.Minute)
		f.db.onCall(func(context.Context, string) error { return errDown })
		f.advance(session.DefaultPromise)
		require.Equal(t, 1, f.logged("session rows cannot be kept fresh"))
		f.db.onCall(nil)
		f.advance(session.DefaultPromise)
		require.Equal(t, 1, f.logged("session rows are kept fresh again"))
	})
}

// TestVouching protects that a run is only stalled as far as its keeper vouches for its silence.
func TestVouching(t *testing.T) {
	running(t, "one that signals and is then silent is stalled after the threshold, as its keeper says", func(f *fixture) {
		f.attach("s-1").Activity()
		f.advance(10 * time.Minute)
		require.Empty(f, f.stalled())
		f.advance(2 * awake)
		require.Equal(f, []string{"s-1"}, f.stalled())
		require.Greater(f, f.row("s-1").Silence, 10*time.Minute)
	})
	running(t, "a row of a silent run that is locked holds nothing back", func(f *fixture) {
		f.attach("s-1").Activity()
		const held = 150 * time.Second
		f.advance(held)
		f.db.change(func() { f.db.locked["s-1"] = true })
		f.keeper().RecheckAll()
		f.advance(10*time.Minute - held + 2*awake)
		require.Equal(f, []string{"s-1"}, f.stalled())
	})
	running(t, "a row of a run that was not quiet holds nothing back", func(f *fixture) {
		wd, silent := f.attach("s-1"), f.attach("s-2")
		silent.Activity()
		wd.Activity()
		f.db.change(func() { f.db.locked["s-1"] = true })
		busy(f, 11*time.Minute, wd)
		require.Equal(f, []string{"s-2"}, f.stalled())
	})
}

// TestRenewalLooks checks that a run which had nothing new for long is looked at with each renewal of the lease, and not
// at each look.
func TestRenewalLooks(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.Promise = 9 * time.Second
		f.start()
		wd, early := f.attach("s-1"), 0
		for i := range 8 {
			f.advance(5*time.Minute + time.Duration(i)*time.Second)
			wd.Activity()
			at := time.Now().UTC()
			f.advance(time.Second)
			if f.shown("s-1").Equal(at) {
				early++
			}
			f.advance(2 * time.Second)
			require.Equal(t, at, f.shown("s-1"))
		}
		require.Less(t, early, 8)
	})
}

// TestEndLocked checks that a keeper which ends does not expire its lease again and again because of a row that others
// have locked.
func TestEndLocked(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.db.Locked = func(string) bool { return true }
		stop := f.run(f.keeper())
		f.attach("s-1")
		expires := 0
		f.db.onCall(func(_ context.Context, call string) error {
			if call == "ExpireLease" {
				if expires++; expires > 10 {
					return errDown
				}
			}
			return nil
		})
		stop()
		require.Equal(t, 2, expires)
		f.db.Locked = nil
	})
}

// TestLeaseExpired protects a process that was taken for dead and goes on.
func TestLeaseExpired(t *testing.T) {
	running(t, "it begins another, claims back what is active, and the others end with their cancel", func(f *fixture) {
		back, lost := f.attach("s-1"), f.attach("s-2")
		first := f.row("s-1").Lease
		f.db.onCall(func(context.Context, string) error { return errDown }) // the process is cut off
		f.advance(time.Minute)
		f.expire(first)
		f.cancel("s-2")
		f.db.onCall(nil)
		f.advance(session.DefaultPromise)
		f.requireRunning(back)
		f.requireCancelled(lost)
		require.NotEmpty(f, f.row("s-1").Lease)
		require.NotEqual(f, first, f.row("s-1").Lease)
		require.Equal(f, 1, f.row("s-1").Attempt)
		require.Equal(f, 1, f.logged("and another is begun"))
		require.Len(f, f.leases(), 1)
		f.advance(time.Hour)
		require.Len(f, f.leases(), 1)
	})
	subtest(t, "an attach that finds it expired begins another by itself", func(f *fixture) {
		wd := f.attach("s-1") // the keeper does not run
		f.expire(f.row("s-1").Lease)
		f.attach("s-2")
		require.NotEmpty(f, f.row("s-2").Lease)
		require.Empty(f, f.row("s-1").Lease)
		f.start()
		f.advance(2 * time.Second)
		require.Equal(f, f.row("s-2").Lease, f.row("s-1").Lease, "it is claimed back")
		f.requireRunning(wd)
	})
	running(t, "a run that was busy all the time is not silent under the next one", func(f *fixture) {
		wd := f.attach("s-1")
		busy(f, 20*time.Minute, wd)
		f.db.fail("Freshen")
		busy(f, time.Minute, wd)
		f.db.onCall(nil)
		f.expire(f.row("s-1").Lease)
		f.advance(9 * time.Minute)
		require.Empty(f, f.stalled())
		f.advance(2 * time.Minute)
		require.Equal(f, []string{"s-1"}, f.stalled(), "the clock of the lease before does not count")
	})
}

// attachSome makes watchdogs of runs with numbers.
func (f *fixture) attachSome(prefix string, n int) (all []*watchdog.Watchdog) {
	f.Helper()
	for i := range n {
		all = append(all, f.attach(fmt.Sprint(prefix, i)))
	}
	return all
}

func signal(all []*watchdog.Watchdog) {
	for _, wd := range all {
		wd.Activity()
	}
}

// limited attaches to a run with an idle limit.
func (f *fixture) limited(runID string, idle time.Duration, change func(cfg *watchdog.Config)) *watchdog.Watchdog {
	f.Helper()
	cfg := f.config(f.keeper())
	cfg.Budget.Idle = idle
	change(&cfg)
	return f.attachAs(runID, cfg)
}

// TestAllowance checks that a row says how long the limits of its run let it be silent.
func TestAllowance(t *testing.T) {
	same := func(*watchdog.Config) {}
	running(t, "is the longest limit with the time to end the run, of one that ends itself", func(f *fixture) {
		f.limited("idle", time.Hour, same)
		f.limited("none", watchdog.NoLimit, same)
		f.limited("observed", time.Hour, func(cfg *watchdog.Config) { cfg.ObserveOnly = true })
		f.limited("disabled", time.Hour, func(cfg *watchdog.Config) { cfg.Disabled = true })
		f.limited("stuck", time.Hour, func(cfg *watchdog.Config) { cfg.Budget.NoProgress = 3 * time.Hour })
		require.InDelta(f, time.Hour.Seconds()+15, f.row("idle").Allowance.Seconds(), 5)
		require.InDelta(f, 3*time.Hour.Seconds()+15, f.row("stuck").Allowance.Seconds(), 5)
		require.Zero(f, f.row("idle").Threshold)
		require.Zero(f, f.row("none").Allowance)
		require.Zero(f, f.row("observed").Allowance)
		_, err := f.db.Session(context.Background(), "disabled")
		if err == nil {
			require.Zero(f, f.row("disabled").Allowance)
		}
	})
	subtest(t, "yields to a threshold of the host's, and the first that is shorter is in the log", func(f *fixture) {
		f.cfg.RunThreshold = func(runID string) time.Duration {
			return map[string]time.Duration{"long": 2 * time.Hour, "short": time.Minute, "shorter": time.Minute}[runID]
		}
		f.start()
		f.limited("long", time.Hour, same)
		require.Zero(f, f.logged("RunThreshold is shorter"))
		f.limited("short", time.Hour, same)
		f.limited("shorter", time.Hour, same)
		require.Equal(f, 1, f.logged("RunThreshold is shorter"))
		require.Equal(f, time.Minute, f.row("short").Threshold)
		require.Zero(f, f.row("short").Allowance)
		require.Equal(f, 2*time.Hour, f.row("long").Threshold)
	})
	running(t, "is in the row again under another lease, and goes with a dead one", func(f *fixture) {
		f.limited("idle", time.Hour, same)
		before := f.row("idle")
		f.expire(before.Lease)
		require.Zero(f, f.row("idle").Allowance)
		f.advance(2 * awake)
		require.NotEqual(f, before.Lease, f.row("idle").Lease)
		require.Equal(f, before.Allowance, f.row("idle").Allowance)
	})
	running(t, "that rose and is not written makes the row one that is behind", func(f *fixture) {
		silent, other := f.attach("s-1"), f.attach("s-2")
		silent.Activity()
		other.Activity()
		f.advance(2 * time.Minute)
		f.db.change(func() { f.db.locked["s-1"] = true })
		f.keeper().SetAllowed(time.Hour)
		f.advance(20 * time.Minute)
		require.True(f, f.row("s-1").Behind)
		require.False(f, f.row("s-2").Behind, "its row was written")
		require.Empty(f, f.stalled())
		f.db.change(func() { clear(f.db.locked) })
		f.advance(2 * awake)
		require.False(f, f.row("s-1").Behind)
		f.advance(37 * time.Minute)
		require.Empty(f, f.stalled())
		f.advance(5 * time.Minute)
		require.Len(f, f.stalled(), 2)
	})
}

// named returns the rows that the only lease names as behind.
func (f *fixture) named() []session.RowBehind {
	f.Helper()
	all := f.leases()
	require.Len(f, all, 1)
	return all[0].Behind
}

// wake has runs that were silent wake up while their rows cannot be written.
func wake(f *fixture, all []*watchdog.Watchdog) {
	signal(all)
	f.advance(9 * time.Minute)
	for _, wd := range all {
		f.db.change(func() { f.db.refused[wd.ID()] = true })
	}
	busy(f, time.Minute, all...)
}

// TestRowBehind protects the runs of a process whose rows can be written from those that cannot, and these from
// sweepers.
func TestRowBehind(t *testing.T) {
	running(t, "the lease names it, and says how far all others are written", func(f *fixture) {
		silent := f.attach("s-1")
		silent.Activity()
		f.attach("s-2").Activity()
		f.advance(9 * time.Minute)
		before := f.row("s-1").Activity
		f.db.change(func() { f.db.locked["s-1"] = true })
		busy(f, time.Hour, silent)
		l := f.leases()[0]
		require.Equal(f, []session.RowBehind{{RunID: "s-1", Attempt: 1, Written: before}}, l.Behind)
		require.InDelta(f, 9*60, l.Vouched.Seconds(), 2*awake.Seconds())
		require.InDelta(f, 69*60, l.Covered.Seconds(), 2*awake.Seconds())
		row := f.row("s-1")
		require.True(f, row.Behind)
		require.Zero(f, row.Silence)
		require.False(f, f.row("s-2").Behind)
		require.Greater(f, f.row("s-2").Silence, time.Hour)
		f.db.change(func() { clear(f.db.locked) })
		f.advance(2 * awake)
		l = f.leases()[0]
		require.Empty(f, l.Behind)
		require.Equal(f, l.Covered, l.Vouched)
		require.False(f, f.row("s-1").Behind)
	})
	running(t, "as many as a lease names hold nothing back, one more holds back all", func(f *fixture) {
		hung := f.attach("hung")
		hung.Activity()
		all := f.attachSome("s-", session.MaxBehind+1)
		signal(all)
		f.advance(5 * time.Minute)
		for _, wd := range all {
			f.db.change(func() { f.db.refused[wd.ID()] = true })
		}
		busy(f, time.Minute, all[1:]...)
		require.Len(f, f.named(), session.MaxBehind)
		require.Zero(f, f.logged("too many rows"))
		busy(f, time.Minute, all...)
		covered := f.leases()[0].Covered
		require.InDelta(f, 6*60, covered.Seconds(), 2*awake.Seconds())
		busy(f, 20*time.Minute, all...)
		require.Equal(f, covered, f.leases()[0].Covered)
		require.Empty(f, f.stalled())
		require.Equal(f, 1, f.logged("too many rows"))
		f.db.change(func() { delete(f.db.refused, "s-7") })
		busy(f, 2*time.Minute, all...)
		require.Equal(f, []string{"hung"}, f.stalled())
		require.Len(f, f.named(), session.MaxBehind)
		require.Equal(f, session.MaxBehind+1, f.logged("the row of a run that was silent cannot be written"))
	})
	running(t, "so is one whose run has ended, until its row says so", func(f *fixture) {
		wd := f.attach("s-1")
		wd.Activity()
		f.attach("s-2").Activity()
		f.advance(10*time.Minute - 2*awake)
		f.db.change(func() { f.db.refused["s-1"] = true })
		require.NoError(f, wd.Close())
		for range 60 {
			f.advance(awake)
			require.NotContains(f, f.stalled(), "s-1")
		}
		require.Equal(f, []string{"s-2"}, f.stalled())
		require.Equal(f, "s-1", f.named()[0].RunID)
		require.Equal(f, 1, f.logged("the row of a run that was silent cannot be written"))
		f.db.change(func() { clear(f.db.refused) })
		f.advance(2 * time.Minute)
		require.Empty(f, f.named())
		require.Equal(f, session.Finished, f.row("s-1").Status)
	})
	running(t, "under the next lease it is named when it is silent and wakes up there", func(f *fixture) {
		all := f.attachSome("s-", 1)
		wake(f, all)
		f.expire(f.leases()[0].ID)
		busy(f, time.Minute, all...)
		require.Empty(f, f.named(), "its row is in no lease")
		f.db.change(func() { clear(f.db.refused) })
		f.advance(2 * time.Minute)
		require.Empty(f, f.named())
		wake(f, all)
		require.Len(f, f.named(), 1)
		require.Empty(f, f.stalled())
	})
	running(t, "a renewal in the middle of an outage says nothing new", func(f *fixture) {
		all := f.attachSome("s-", 2)
		hung := f.attach("hung")
		hung.Activity()
		signal(all)
		f.advance(9 * time.Minute)
		f.db.fail("Freshen")
		covered := f.leases()[0].Covered
		busy(f, 20*time.Minute, all...)
		l := f.leases()[0]
		require.InDelta(f, covered.Seconds(), l.Covered.Seconds(), 2*awake.Seconds(), "nobody knows what is written")
		require.Empty(f, l.Behind)
		require.Empty(f, f.stalled())
		f.db.onCall(nil)
		f.advance(3 * awake)
		require.Equal(f, []string{"hung"}, f.stalled())
	})
}
