package sessiontest_test

import (
	"slices"
	"sync/atomic"

	"github.com/seed62658d38/watchdog/session"
)

// forgetsEnd is a fault in which no lease is told of the ends of a run.
func forgetsEnd(runID string) fault { return after(func(c *endedCall) { c.without(runID) }) }

func (c *endedCall) without(runID string) {
	c.ended = slices.DeleteFunc(c.ended, func(a session.AttemptID) bool { return a.RunID == runID })
}

var brokenEnded = []broken{
	{"forgets what it has told", "a lease is told of a session that is cancelled, until it says that it was told",
		after(func(c *endedCall) { _, _ = c.m.Ended(c.ctx, c.lease, c.ended) })},
	{"never forgets", "a lease is told once more of a run that is cancelled again",
		before(when(func(c *endedCall) bool { return len(c.told) > 0 && c.told[0].Attempt > 1 },
			func(c *endedCall) { c.told = nil }))},
	{"forgets all that lie between", "what a lease was not told yet is not forgotten with what it was",
		before(when(func(c *endedCall) bool { return len(c.told) > 1 },
			func(c *endedCall) { c.told = append(c.told, session.AttemptID{RunID: "b", Attempt: 1}) }))},
	{"forgets for every lease", "each lease is told of its own sessions only",
		before(func(c *endedCall) { _, _ = c.m.Ended(c.ctx, "lease-2", c.told) })},
	{"tells of all that has ended",
		"a lease is not told of what it ended itself, or of what has not ended",
		after(when(func(c *endedCall) bool { return c.row("finished").Status == session.Finished },
			func(c *endedCall) { c.ended = append(c.ended, session.AttemptID{RunID: "finished", Attempt: 1}) }))},
	{"tells somebody in any case", "of a session without a lease nobody is told when it is cancelled",
		after(when(func(c *endedCall) bool { return c.lease == "" && c.row("run-1").Status == session.Cancelled },
			func(c *endedCall) { c.ended = append(c.ended, session.AttemptID{RunID: "run-1", Attempt: 1}) }))},
	{"does not tell of each of a batch", "of sessions that are cancelled together the leases are told",
		func() alteration {
			var batched atomic.Bool // rules cancel from several goroutines
			return both(before(func(*cancelAllCall) { batched.Store(true) }), after(func(c *endedCall) {
				if batched.Load() {
					c.without("b")
				}
			}))()
		}},
	{"keeps what a lease was not told", "what a lease was not told goes with it",
		func() alteration {
			expired := false
			return both(before(func(*expireCall) { expired = true }), after(func(c *endedCall) {
				if expired && c.lease == "lease-1" && c.row("run-1").Status == session.Cancelled {
					c.ended = append(c.ended, session.AttemptID{RunID: "run-1", Attempt: 1})
				}
			}))()
		}},
}
