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
	t.Run("the lease names it with its attempt and what it shows, and says how far all others are written", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			silent := f.attach("s-1")
			silent.Activity()
			f.attach("s-2").Activity()
			f.advance(9 * time.Minute)
			before := f.row("s-1").Activity
			c.change(func() { c.locked["s-1"] = true })
			busy(f, time.Hour, silent)
			l := f.leases()[0]
			require.Equal(t, []session.RowBehind{{RunID: "s-1", Attempt: 1, Written: before}}, l.Behind)
			require.InDelta(t, 9*60, l.Vouched.Seconds(), 2*awake.Seconds())
			require.InDelta(t, 69*60, l.Covered.Seconds(), 2*awake.Seconds())
			row := f.row("s-1")
			require.True(t, row.Behind)
			require.Zero(t, row.Silence)
			require.False(t, f.row("s-2").Behind)
			require.Greater(t, f.row("s-2").Silence, time.Hour)
			c.change(func() { clear(c.locked) })
			f.advance(2 * awake)
			l = f.leases()[0]
			require.Empty(t, l.Behind)
			require.Equal(t, l.Covered, l.Vouched)
			require.False(t, f.row("s-1").Behind)
		})
	})
	t.Run("as many as a lease names hold nothing back, and one more holds back all", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			hung := f.attach("hung")
			hung.Activity()
			all := f.attachSome("s-", session.MaxBehind+1)
			signal(all)
			f.advance(5 * time.Minute)
			for _, wd := range all {
				c.change(func() { c.refused[wd.ID()] = true })
			}
			busy(f, time.Minute, all[1:]...)
			require.Len(t, f.named(), session.MaxBehind)
			require.Zero(t, f.log.count("too many rows"))
			busy(f, time.Minute, all...)
			covered := f.leases()[0].Covered
			require.InDelta(t, 6*60, covered.Seconds(), 2*awake.Seconds())
			busy(f, 20*time.Minute, all...)
			require.Equal(t, covered, f.leases()[0].Covered)
			require.Empty(t, f.stalled())
			require.Equal(t, 1, f.log.count("too many rows"))
			c.change(func() { delete(c.refused, "s-7") })
			busy(f, 2*time.Minute, all...)
			require.Equal(t, []string{"hung"}, f.stalled())
			require.Len(t, f.named(), session.MaxBehind)
			require.Equal(t, session.MaxBehind+1, f.log.count("the row of a run that was silent cannot be written"))
		})
	})
	t.Run("each is logged once for as long as it lasts", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			all := f.attachSome("s-", 3)
			for range 2 {
				wake(f, c, all)
				busy(f, time.Hour, all...)
				c.change(func() { clear(c.refused) })
				f.advance(9 * time.Minute)
			}
			require.Equal(t, 6, f.log.count("the row of a run that was silent cannot be written"))
			require.Equal(t, 2, f.log.count("run=s-2 attempt=1"))
		})
	})
	t.Run("so is one whose run has ended, until its row says so", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			wd := f.attach("s-1")
			wd.Activity()
			f.attach("s-2").Activity()
			f.advance(10*time.Minute - 2*awake)
			c.change(func() { c.refused["s-1"] = true })
			require.NoError(t, wd.Close())
			for range 60 {
				f.advance(awake)
				require.NotContains(t, f.stalled(), "s-1")
			}
			require.Equal(t, []string{"s-2"}, f.stalled())
			require.Equal(t, "s-1", f.named()[0].RunID)
			require.Equal(t, 1, f.log.count("the row of a run that was silent cannot be written"))
			c.change(func() { clear(c.refused) })
			f.advance(2 * time.Minute)
			require.Empty(t, f.named())
			require.Equal(t, session.Finished, f.row("s-1").Status)
		})
	})
	t.Run("a session that was found before it was named is not claimed, warned or cancelled", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			wd := f.attach("s-1")
			wd.Activity()
			f.advance(10*time.Minute + 2*awake)
			found := f.row("s-1")
			require.Equal(t, []string{"s-1"}, f.stalled())
			c.change(func() { c.refused["s-1"] = true })
			busy(f, 10*time.Second, wd)
			require.Empty(t, f.stalled())
			outcome, err := f.db.Claim(context.Background(), found, session.ClaimRequest{By: "pass", For: time.Hour, EndID: "e"})
			require.NoError(t, err)
			require.Equal(t, session.Changed, outcome)
			outcome, err = f.db.Warn(context.Background(), found, nil)
			require.NoError(t, err)
			require.Equal(t, session.Changed, outcome)
			require.False(t, f.cancelAs(found))
			f.requireRunning(wd)
			require.True(t, f.cancelAs(f.row("s-1")), "who does not judge its silence can end it")
		})
	})
	t.Run("one whose run ends or is taken over is named no more", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			all := f.attachSome("s-", 3)
			wake(f, c, all)
			require.Len(t, f.named(), 3)
			c.change(func() { delete(c.refused, "s-0") })
			require.NoError(t, all[0].Close())
			there := f.newKeeper("there")
			defer f.run(there)()
			f.attachTo(there, "s-1")
			busy(f, 2*time.Minute, all[2])
			for _, l := range f.leases() {
				if l.Host == "here" {
					require.Len(t, l.Behind, 1)
					require.Equal(t, "s-2", l.Behind[0].RunID)
				}
			}
		})
	})
	t.Run("under the next lease it is named when it is silent and wakes up there", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			all := f.attachSome("s-", 1)
			wake(f, c, all)
			c.change(func() { clear(c.refused) })
			f.expire(f.leases()[0].ID)
			f.advance(5 * time.Second)
			require.Empty(t, f.named())
			wake(f, c, all)
			require.Len(t, f.named(), 1)
			require.Empty(t, f.stalled())
		})
	})
	t.Run("when its process is found dead, it is judged as others are", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			all := f.attachSome("s-", 1)
			wake(f, c, all)
			c.onCall(func(context.Context, string) error { return errDown })
			f.advance(time.Minute)
			f.expire(f.leases()[0].ID)
			require.False(t, f.row("s-0").Behind)
			require.Equal(t, []string{"s-0"}, f.stalled())
			c.change(func() { clear(c.refused) })
			c.onCall(nil)
		})
	})
	t.Run("a renewal in the middle of an outage says nothing new", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			all := f.attachSome("s-", 2)
			hung := f.attach("hung")
			hung.Activity()
			signal(all)
			f.advance(9 * time.Minute)
			c.onCall(func(_ context.Context, call string) error {
				if call == "Freshen" {
					return errDown
				}
				return nil
			})
			covered := f.leases()[0].Covered
			busy(f, 20*time.Minute, all...)
			l := f.leases()[0]
			require.InDelta(t, covered.Seconds(), l.Covered.Seconds(), 2*awake.Seconds(), "nobody knows what is written")
			require.Empty(t, l.Behind)
			require.Empty(t, f.stalled())
			c.onCall(nil)
			f.advance(3 * awake)
			require.Equal(t, []string{"hung"}, f.stalled())
		})
	})
}
