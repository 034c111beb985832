package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// named returns the rows that the only lease names as behind.
func (f *fixture) named() []session.RowBehind {
	f.Helper()
	all := f.leases()
	require.Len(f, all, 1)
	return all[0].Behind
}

// wake has runs that were silent wake up while their rows cannot be written.
func wake(f *fixture, c *contended, all []*watchdog.Watchdog) {
	signal(all)
	f.advance(9 * time.Minute)
	for _, wd := range all {
		c.change(func() { c.refused[wd.ID()] = true })
	}
	busy(f, time.Minute, all...)
}

// TestRowBehind protects the runs of a process whose rows can be written from those that cannot, and these from
// sweepers.
func TestRowBehind(t *testing.T) {
	contention(t, "the lease names it, and says how far all others are written", func(f *fixture, c *contended) {
		silent := f.attach("s-1")
		silent.Activity()
		f.attach("s-2").Activity()
		f.advance(9 * time.Minute)
		before := f.row("s-1").Activity
		c.change(func() { c.locked["s-1"] = true })
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
		c.change(func() { clear(c.locked) })
		f.advance(2 * awake)
		l = f.leases()[0]
		require.Empty(f, l.Behind)
		require.Equal(f, l.Covered, l.Vouched)
		require.False(f, f.row("s-1").Behind)
	})
	contention(t, "as many as a lease names hold nothing back, one more holds back all", func(f *fixture, c *contended) {
		hung := f.attach("hung")
		hung.Activity()
		all := f.attachSome("s-", session.MaxBehind+1)
		signal(all)
		f.advance(5 * time.Minute)
		for _, wd := range all {
			c.change(func() { c.refused[wd.ID()] = true })
		}
		busy(f, time.Minute, all[1:]...)
		require.Len(f, f.named(), session.MaxBehind)
		require.Zero(f, f.log.count("too many rows"))
		busy(f, time.Minute, all...)
		covered := f.leases()[0].Covered
		require.InDelta(f, 6*60, covered.Seconds(), 2*awake.Seconds())
		busy(f, 20*time.Minute, all...)
		require.Equal(f, covered, f.leases()[0].Covered)
		require.Empty(f, f.stalled())
		require.Equal(f, 1, f.log.count("too many rows"))
		c.change(func() { delete(c.refused, "s-7") })
		busy(f, 2*time.Minute, all...)
		require.Equal(f, []string{"hung"}, f.stalled())
		require.Len(f, f.named(), session.MaxBehind)
		require.Equal(f, session.MaxBehind+1, f.log.count("the row of a run that was silent cannot be written"))
	})
	contention(t, "each is logged once for as long as it lasts", func(f *fixture, c *contended) {
		all := f.attachSome("s-", 3)
		for range 2 {
			wake(f, c, all)
			busy(f, time.Hour, all...)
			c.change(func() { clear(c.refused) })
			f.advance(9 * time.Minute)
		}
		require.Equal(f, 6, f.log.count("the row of a run that was silent cannot be written"))
		require.Equal(f, 2, f.log.count("run=s-2 attempt=1"))
	})
	contention(t, "so is one whose run has ended, until its row says so", func(f *fixture, c *contended) {
		wd := f.attach("s-1")
		wd.Activity()
		f.attach("s-2").Activity()
		f.advance(10*time.Minute - 2*awake)
		c.change(func() { c.refused["s-1"] = true })
		require.NoError(f, wd.Close())
		for range 60 {
			f.advance(awake)
			require.NotContains(f, f.stalled(), "s-1")
		}
		require.Equal(f, []string{"s-2"}, f.stalled())
		require.Equal(f, "s-1", f.named()[0].RunID)
		require.Equal(f, 1, f.log.count("the row of a run that was silent cannot be written"))
		c.change(func() { clear(c.refused) })
		f.advance(2 * time.Minute)
		require.Empty(f, f.named())
		require.Equal(f, session.Finished, f.row("s-1").Status)
	})
	contention(t, "one that was found before it was named is neither claimed nor ended", func(f *fixture, c *contended) {
		wd := f.attach("s-1")
		wd.Activity()
		f.advance(10*time.Minute + 2*awake)
		found := f.row("s-1")
		require.Equal(f, []string{"s-1"}, f.stalled())
		c.change(func() { c.refused["s-1"] = true })
		busy(f, 10*time.Second, wd)
		require.Empty(f, f.stalled())
		outcome, err := f.db.Claim(context.Background(), found, session.ClaimRequest{By: "pass", For: time.Hour, EndID: "e"})
		require.NoError(f, err)
		require.Equal(f, session.Changed, outcome)
		outcome, err = f.db.Warn(context.Background(), found, nil)
		require.NoError(f, err)
		require.Equal(f, session.Changed, outcome)
		require.False(f, f.cancelAs(found))
		f.requireRunning(wd)
		require.True(f, f.cancelAs(f.row("s-1")), "who does not judge its silence can end it")
	})
	contention(t, "one whose run ends or is taken over is named no more", func(f *fixture, c *contended) {
		all := f.attachSome("s-", 3)
		wake(f, c, all)
		require.Len(f, f.named(), 3)
		c.change(func() { delete(c.refused, "s-0") })
		require.NoError(f, all[0].Close())
		there := f.newKeeper("there")
		defer f.run(there)()
		f.attachTo(there, "s-1")
		busy(f, 2*time.Minute, all[2])
		for _, l := range f.leases() {
			if l.Host == "here" {
				require.Len(f, l.Behind, 1)
				require.Equal(f, "s-2", l.Behind[0].RunID)
			}
		}
	})
	contention(t, "under the next lease it is named when it is silent and wakes up there", func(f *fixture, c *contended) {
		all := f.attachSome("s-", 1)
		wake(f, c, all)
		c.change(func() { clear(c.refused) })
		f.expire(f.leases()[0].ID)
		f.advance(5 * time.Second)
		require.Empty(f, f.named())
		wake(f, c, all)
		require.Len(f, f.named(), 1)
		require.Empty(f, f.stalled())
	})
	contention(t, "when its process is found dead, it is judged as others are", func(f *fixture, c *contended) {
		all := f.attachSome("s-", 1)
		wake(f, c, all)
		c.onCall(func(context.Context, string) error { return errDown })
		f.advance(time.Minute)
		f.expire(f.leases()[0].ID)
		require.False(f, f.row("s-0").Behind)
		require.Equal(f, []string{"s-0"}, f.stalled())
		c.change(func() { clear(c.refused) })
		c.onCall(nil)
	})
	contention(t, "a renewal in the middle of an outage says nothing new", func(f *fixture, c *contended) {
		all := f.attachSome("s-", 2)
		hung := f.attach("hung")
		hung.Activity()
		signal(all)
		f.advance(9 * time.Minute)
		c.fail("Freshen")
		covered := f.leases()[0].Covered
		busy(f, 20*time.Minute, all...)
		l := f.leases()[0]
		require.InDelta(f, covered.Seconds(), l.Covered.Seconds(), 2*awake.Seconds(), "nobody knows what is written")
		require.Empty(f, l.Behind)
		require.Empty(f, f.stalled())
		c.onCall(nil)
		f.advance(3 * awake)
		require.Equal(f, []string{"hung"}, f.stalled())
	})
}
