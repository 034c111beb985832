package sessiontest_test

import (
	"errors"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// boasts is a fault in which a cancel that did nothing returns Done.
func boasts(which func(c *cancelCall) bool) fault {
	return after(func(c *cancelCall) {
		if c.outcome == session.Changed && which(c) {
			c.outcome = session.Done
		}
	})
}

var brokenCancels = []broken{
	{"forgets how often a run was resumed", "a session that has not changed is cancelled, as requested",
		before(when(func(c *cancelCall) bool { return c.request.Resumes == 3 },
			func(c *cancelCall) { c.request.Resumes = 0 }))},
	{"stores the last event only", "the events of a cancel are stored with it",
		before(func(c *cancelCall) {
			if events := c.request.Events; len(events) == 2 && events[1].ID == "terminal" {
				c.request.Events = events[1:]
			}
		})},
	{"changes the row before it validates the events", "a cancel with an invalid event is an error and changes nothing",
		after(func(c *cancelCall) {
			if errors.Is(c.err, watchdog.ErrInvalid) {
				c.judged.Status = session.Cancelled
				c.put(c.judged)
			}
		})},
	{"cancels without an event", "a cancel without an event is an error and changes nothing",
		before(func(c *cancelCall) {
			if len(c.request.Events) == 0 {
				c.request.Events = []watchdog.Event{{
					ID: "made up", AggregateType: watchdog.AggregateType, AggregateID: c.judged.RunID,
					Type: watchdog.EventCancel, Payload: []byte(`{}`), Timestamp: c.judged.CreatedAt,
				}}
			}
		})},
	{"finds NULL different from NULL", "a session without events is cancelled like others",
		around(func(c *cancelCall, next func()) {
			if c.judged.LastEventAt.IsZero() {
				c.outcome, c.err = session.Changed, c.ctx.Err()
				return
			}
			next()
		})},
	{"does not compare the last event", "a session that woke up is not cancelled, and nothing is written",
		before(when(func(c *cancelCall) bool { return !c.judged.LastEventAt.IsZero() },
			func(c *cancelCall) { c.judged.LastEventAt = c.row(c.judged.RunID).LastEventAt }))},
	{"takes NULL for any last event",
		"a session that had its first event meanwhile is not cancelled, and nothing is written",
		before(when(func(c *cancelCall) bool { return c.judged.LastEventAt.IsZero() },
			func(c *cancelCall) { c.judged.LastEventAt = c.row(c.judged.RunID).LastEventAt }))},
	{"does not compare the attempt of a cancel", "a session in another attempt is not cancelled, and nothing is written",
		before(when(func(c *cancelCall) bool { return c.judged.RunID == "run-1" },
			func(c *cancelCall) { c.judged.Attempt = c.row(c.judged.RunID).Attempt }))},
	{"cancels what has finished", "a session that has ended is not cancelled, and nothing is written",
		before(func(c *cancelCall) {
			if s := c.row(c.judged.RunID); s.Status == session.Finished && c.judged.Lease == "" {
				s.Status = session.Active
				c.put(s)
			}
		})},
	{"returns Done for a run that it does not know", "a run without a row is not cancelled, and nothing is written",
		boasts(func(c *cancelCall) bool { return c.row(c.judged.RunID).Attempt == 0 })},
	{"returns Done for a repeated cancel", "of two cancels of one session the first counts",
		boasts(func(c *cancelCall) bool { return c.request.Reason == "another" })},
}

var brokenRaces = []broken{
	{"stores the events of a cancel that came too late",
		"of eight cancels at once one counts, and only its events are stored",
		after(func(c *cancelCall) {
			if c.outcome == session.Changed && strings.HasPrefix(c.request.Events[0].ID, "of caller") {
				c.err = c.m.Append(c.ctx, c.request.Events...)
			}
		})},
	{"takes the stored event of another for its own",
		"of eight cancels at once with one event one counts, and the row is as it requested",
		boasts(func(c *cancelCall) bool { return strings.HasPrefix(c.request.By, "caller") })},
	{"looks for a stored end before it locks the row",
		"if a run ends while it is cancelled, its event and its row say the same",
		after(func(c *cancelCall) {
			if c.outcome == session.EndStored && strings.HasPrefix(c.judged.RunID, "race-") {
				s := c.row(c.judged.RunID)
				s.Status, s.Reason = session.Cancelled, c.request.Reason
				c.put(s)
			}
		})},
}
