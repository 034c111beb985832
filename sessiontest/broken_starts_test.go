package sessiontest_test

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// cancelsAndThen is a fault in the row of one run after each cancel.
func cancelsAndThen(runID string, change func(s *row, c *call)) fault {
	return after("Cancel", func(c *call) {
		if c.err == nil && c.judged.RunID == runID {
			c.edit(runID, func(s *row) { change(s, c) })
		}
	})
}

// wantsStart has the row of a run want a start.
func wantsStart(s *row, c *call) {
	s.Start = session.WantedStart{Key: c.cancel.Events[0].ID, Tries: 1, Due: s.CreatedAt.Add(time.Hour)}
}

// claimsStarts is a fault in the rows of the starts that are claimed.
func claimsStarts(change func(s *row)) fault {
	return after("ClaimStart", func(c *call) {
		if change(&c.s); c.err == nil {
			c.put(c.s)
		}
	})
}

// putsOff is a fault in how the start of one run is put off.
func putsOff(runID string, change func(c *call, there row)) fault {
	return before("PutOffStart", func(c *call) {
		if c.s.RunID == runID {
			change(c, c.row(runID))
		}
	})
}

var brokenStarts = []broken{
	{"does not keep that a start is wanted", "a cancel can want a start",
		cancelsAndThen("wanted", func(s *row, _ *call) { s.Start = session.WantedStart{} })},
	{"does not claim the start that a cancel wants", "a cancel can want a start",
		cancelsAndThen("wanted", func(s *row, _ *call) { s.Start.Due = s.CreatedAt })},
	{"lists no start", "a cancel can want a start",
		after("List", func(c *call) { each(c.listed.Sessions, func(s *row) { s.Start = session.WantedStart{} }) })},
	{"forgets the starts of sessions that are cancelled together", "can each want a start",
		misjudges(func(_ *call, one *session.BatchedCancel) { one.Request.StartFor = 0 })},
	{"wants a start of each session that it cancels", "no start is wanted", cancelsAndThen("unwanted", wantsStart)},
	{"wants a start of a run whose end is stored", "no start is wanted", cancelsAndThen("ended before", wantsStart)},
	{"gives each try a key of its own", "a start that is due",
		claimsStarts(func(s *row) { setIf(s.RunID == "again" && s.Start.Tries == 3, &s.Start.Key, s.Start.Key+"'") })},
	{"does not count the tries of a start", "a start that is due",
		claimsStarts(func(s *row) { setIf(s.RunID == "again", &s.Start.Tries, min(s.Start.Tries, 3)) })},
	{"claims a start for no time", "claimed or put off",
		claimsStarts(func(s *row) { setIf(s.RunID == "later", &s.Start.Due, s.CreatedAt) })},
	{"puts a start off for no time", "claimed or put off", putsOff("later", func(c *call, _ row) { c.pause = 0 })},
	{"puts a start off for a week", "a claim or a pause of a start", after("PutOffStart", func(c *call) {
		c.edit("for a week", func(s *row) { setIf(c.pause > 0, &s.Start.Due, s.CreatedAt.Add(c.pause)) })
	})},
	{"claims the start first that has been due for the shortest time", "due for the longest time",
		after("ClaimStart", func(c *call) {
			if first := c.s; first.RunID == "order-1" {
				c.s, c.err = c.m.ClaimStart(c.ctx, time.Hour)
				first.Start.Tries, first.Start.Due = 1, first.CreatedAt
				c.put(first)
			}
		})},
	{"gives one start to two that claim at once", "each takes another start", after("ClaimStart", func(c *call) {
		if again := c.s; again.RunID == "race-3" && again.Start.Tries == 2 {
			again.Start.Due = again.CreatedAt
			c.put(again)
		}
	})},
	{"lets whoever claimed a start before put it off", "only the latest claim",
		putsOff("late", func(c *call, there row) { c.s.Start.Tries = there.Start.Tries })},
	{"puts off a start with another key", "only the latest claim",
		putsOff("late", func(c *call, there row) { c.s.Start.Key = there.Start.Key })},
	{"puts off a start that was given up", "a start that was given up",
		putsOff("given up", func(c *call, _ row) { setIf(c.pause == session.NoMoreStarts, &c.pause, time.Hour) })},
	{"keeps the start of the attempt before", "the next attempt of a run", func() alteration {
		var before session.WantedStart
		return cancelsAndThen("attached", func(s *row, _ *call) {
			setIf(s.Attempt == 1, &before, s.Start)
			s.Start = before
		})()
	}},
	{"claims no start behind one that cannot be read", "a row that cannot be read",
		fails("ClaimStart", nil, func(c *call) bool {
			c.s, c.err = c.m.Session(c.ctx, "a-spoilt")
			return errors.Is(c.err, session.ErrUnreadable)
		})},
	{"claims a start for somebody who has gone", "a call about starts with a done context",
		around("ClaimStart", func(c *call, next func()) {
			done := c.ctx.Err()
			c.ctx = context.WithoutCancel(c.ctx)
			next()
			setIf(done != nil, &c.err, done)
		})},
}
