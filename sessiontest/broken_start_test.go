package sessiontest_test

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// cancelsAndThen is a fault in the row of one run after each cancel.
func cancelsAndThen(runID string, change func(s *session.Session, c *cancelCall)) fault {
	return after(func(c *cancelCall) {
		if s := c.row(runID); c.err == nil && c.judged.RunID == runID {
			change(&s, c)
			c.put(s)
		}
	})
}

// wantsStart has the row of a run want a start.
func wantsStart(s *session.Session, c *cancelCall) {
	s.Start = session.WantedStart{Key: c.request.Events[0].ID, Tries: 1, Due: s.CreatedAt.Add(time.Hour)}
}

// claimsStarts is a fault in the rows of the starts that are claimed.
func claimsStarts(change func(c *claimStartCall)) fault {
	return after(when(func(c *claimStartCall) bool { return c.err == nil }, func(c *claimStartCall) {
		change(c)
		c.put(c.s)
	}))
}

// putsOff is a fault in how the start of one run is put off.
func putsOff(runID string, change func(c *putOffStartCall)) fault {
	return before(when(func(c *putOffStartCall) bool { return c.s.RunID == runID }, change))
}

var brokenStarts = []broken{
	{"does not keep that a start is wanted", "a cancel can want a start of its run, which is claimed by then",
		cancelsAndThen("wanted", func(s *session.Session, _ *cancelCall) { s.Start = session.WantedStart{} })},
	{"does not claim the start that a cancel wants", "a cancel can want a start of its run, which is claimed by then",
		cancelsAndThen("wanted", func(s *session.Session, _ *cancelCall) { s.Start.Due = s.CreatedAt })},
	{"lists no start", "a cancel can want a start of its run, which is claimed by then",
		after(func(c *listCall) {
			for i := range c.page.Sessions {
				c.page.Sessions[i].Start = session.WantedStart{}
			}
		})},
	{"forgets the starts of sessions that are cancelled together",
		"sessions that are cancelled together can each want a start",
		misjudges(func(_ *cancelAllCall, one *session.BatchedCancel) { one.Request.StartFor = 0 })},
	{"wants a start of each session that it cancels",
		"no start is wanted after a cancel that does not say so, or that finds an end that is stored",
		cancelsAndThen("unwanted", wantsStart)},
	{"wants a start of a run whose end is stored",
		"no start is wanted after a cancel that does not say so, or that finds an end that is stored",
		cancelsAndThen("ended before", wantsStart)},
	{"gives each try a key of its own",
		"a start that is due is claimed with the same key at each try, and its tries are counted",
		claimsStarts(func(c *claimStartCall) {
			if c.s.RunID == "again" && c.s.Start.Tries == 3 {
				c.s.Start.Key += "'"
			}
		})},
	{"does not count the tries of a start",
		"a start that is due is claimed with the same key at each try, and its tries are counted",
		claimsStarts(func(c *claimStartCall) {
			if c.s.RunID == "again" {
				c.s.Start.Tries = min(c.s.Start.Tries, 3)
			}
		})},
	{"claims a start for no time", "a start that was claimed or put off is not due before that is over",
		claimsStarts(func(c *claimStartCall) {
			if c.s.RunID == "later" {
				c.s.Start.Due = c.s.CreatedAt
			}
		})},
	{"puts a start off for no time", "a start that was claimed or put off is not due before that is over",
		putsOff("later", func(c *putOffStartCall) { c.pause = 0 })},
	{"puts a start off for a week", "a claim or a pause of a start lasts for a day at most",
		after(when(func(c *putOffStartCall) bool { return c.s.RunID == "for a week" && c.pause > 0 },
			func(c *putOffStartCall) {
				c.s.Start.Due = c.s.CreatedAt.Add(c.pause)
				c.put(c.s)
			}))},
	{"claims the start first that has been due for the shortest time",
		"the start that has been due for the longest time is claimed first",
		after(func(c *claimStartCall) {
			if first := c.s; first.RunID == "order-1" {
				c.s, c.err = c.m.ClaimStart(c.ctx, time.Hour)
				first.Start.Tries, first.Start.Due = 1, first.CreatedAt
				c.put(first)
			}
		})},
	{"gives one start to two that claim at once", "of eight claims at once each takes another start that is due",
		after(func(c *claimStartCall) {
			if again := c.s; again.RunID == "race-3" && again.Start.Tries == 2 {
				again.Start.Due = again.CreatedAt
				c.put(again)
			}
		})},
	{"lets whoever claimed a start before put it off", "only the latest claim of a start can put it off or give it up",
		putsOff("late", func(c *putOffStartCall) { c.s.Start.Tries = c.row("late").Start.Tries })},
	{"puts off a start with another key", "only the latest claim of a start can put it off or give it up",
		putsOff("late", func(c *putOffStartCall) { c.s.Start.Key = c.row("late").Start.Key })},
	{"puts off a start that was given up", "a start that was given up is not wanted any more",
		putsOff("given up", func(c *putOffStartCall) {
			if c.pause == session.NoMoreStarts {
				c.pause = time.Hour
			}
		})},
	{"keeps the start of the attempt before", "the next attempt of a run ends its start",
		func() alteration {
			var before session.WantedStart
			return cancelsAndThen("attached", func(s *session.Session, _ *cancelCall) {
				if s.Attempt == 1 {
					before = s.Start
				} else {
					s.Start = before
				}
			})()
		}},
	{"claims no start behind one that cannot be read", "a row that cannot be read does not hold up the other starts",
		around(func(c *claimStartCall, next func()) {
			if c.s, c.err = c.m.Session(c.ctx, "a-spoilt"); !errors.Is(c.err, session.ErrUnreadable) {
				next()
			}
		})},
	{"claims a start for somebody who has gone",
		"a call about starts with a done context changes nothing and returns the context's error",
		around(func(c *claimStartCall, next func()) {
			done := c.ctx.Err()
			c.ctx = context.WithoutCancel(c.ctx)
			if next(); done != nil {
				c.err = done
			}
		})},
}
