package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// misclaims is a fault in the outcome of a claim on the row that there was.
func misclaims(from, to session.Outcome, which func(c *claimCall, before session.Session) bool) fault {
	return around(func(c *claimCall, next func()) {
		before := c.row(c.judged.RunID)
		if next(); c.outcome == from && which(c, before) {
			c.outcome = to
		}
	})
}

var brokenClaims = []broken{
	{"takes a claim for a sign of life", "a claimed session names the pass, and is as it was otherwise",
		after(func(c *claimCall) {
			s := c.row(c.judged.RunID)
			if c.outcome == session.Done && s.Lease != "" && s.WarnedAt.IsZero() && !s.Stopped {
				s.Activity++
				c.put(s)
			}
		})},
	{"lets a caller without a name cancel what is claimed",
		"while a claim lasts, nobody else claims, warns or cancels",
		before(when(func(c *cancelCall) bool { return c.request.By == "" },
			func(c *cancelCall) { c.request.By = c.row(c.judged.RunID).Claim }))},
	{"refuses a pass its own claim", "the pass that claimed a session can claim it again, and cancel it",
		misclaims(session.Done, session.Taken, func(c *claimCall, before session.Session) bool {
			return before.Claim == c.request.By && c.request.For == time.Hour && before.Lease == ""
		})},
	{"keeps a claim for ever", "a claim that is over does not count",
		misclaims(session.Done, session.Taken, func(c *claimCall, before session.Session) bool {
			return before.Claim != "" && before.Claim != c.request.By
		})},
	{"keeps the end of the first claim", "a claim lasts as long as its pass said last",
		before(when(func(c *claimCall) bool { return c.row(c.judged.RunID).Claim == c.request.By && c.request.For == 0 },
			func(c *claimCall) { c.request.For = time.Hour }))},
	{"claims without a lock", "of eight claims at once one counts",
		misclaims(session.Taken, session.Done, func(_ *claimCall, before session.Session) bool {
			return strings.HasPrefix(before.RunID, "race-")
		})},
}

// stillWarned is a fault in which rows say that a session was warned though that is void.
func stillWarned(which func(s session.Session) bool) fault {
	return after(func(c *sessionCall) {
		events, _ := c.m.Read(c.ctx, watchdog.AggregateType, c.runID)
		warned := slices.ContainsFunc(events, func(e watchdog.Event) bool { return e.Type == watchdog.EventWarning })
		if warned && c.s.WarnedAt.IsZero() && c.s.Attempt == 1 && c.s.Status == session.Active && which(c.s) {
			c.s.WarnedAt = c.m.Clock()
		}
	})
}

var brokenWarnings = []broken{
	{"notes a warning without its events", "a warning is noted with its events, and the time",
		before(when(func(c *warnCall) bool { return c.judged.Lease != "" && len(c.events) == 1 },
			func(c *warnCall) { c.events = nil }))},
	{"stores the events of a warning one by one", "a warning with an invalid event is an error and changes nothing",
		after(when(func(c *warnCall) bool { return errors.Is(c.err, watchdog.ErrInvalid) },
			func(c *warnCall) { c.err = errors.Join(c.err, c.m.Append(c.ctx, c.events[0])) }))},
	{"keeps a warning beside an activity", "a warning is void after an activity",
		stillWarned(func(s session.Session) bool { return s.Lease == "lease-1" && s.Activity == 1 })},
	{"keeps a warning in another lease", "a warning is void after another lease",
		stillWarned(func(s session.Session) bool { return s.Lease == "lease-2" })},
	{"keeps a warning of a dead process", "a warning is void after the death of its process",
		stillWarned(func(s session.Session) bool { return s.Lease == "" })},
	{"takes back a warning with each write of the row", "a warning stands until the session gives a sign of life",
		looks(when(func(s *session.Session) bool { return strings.Contains(string(s.State), "warned\":1") },
			func(s *session.Session) { s.WarnedAt = time.Time{} }))},
	{"takes a warning for a sign of life", "a session that was warned is claimed and cancelled like others",
		before(func(c *claimCall) {
			if s := c.row(c.judged.RunID); s.Activity == 0 && !s.WarnedAt.Equal(c.judged.WarnedAt) {
				c.judged.Attempt = 0
			}
		})},
}

var brokenStoredEnds = []broken{
	{"appends the other events beside a stored end",
		"a cancel whose event is stored already writes down what that says, and nothing else",
		after(when(func(c *cancelCall) bool { return c.outcome == session.EndStored },
			func(c *cancelCall) { c.err = c.m.Append(c.ctx, c.request.Events...) }))},
	{"does not look for an end when it claims",
		"a claim on a session whose end is stored already writes down what that says",
		before(when(func(c *claimCall) bool { return strings.HasPrefix(c.judged.RunID, "claimed-") },
			func(c *claimCall) { c.request.EndID = "" }))},
	{"forgets how the command of a stored end ended",
		"a stored end that says how the run's command ended is in the row's state, with what that said",
		looks(when(func(s *session.Session) bool { return s.RunID == "failed by cancel" && s.Failed() },
			func(s *session.Session) { s.State = []byte(`{"phase":"tests","later":[1]}`) }))},
	{"forgets the claim beside a stored end",
		"a stored end that appears after the claim is written down by the cancel, with the claim",
		after(func(c *cancelCall) {
			if s := c.row(c.judged.RunID); c.outcome == session.EndStored && s.Claim != "" {
				s.Claim = ""
				c.put(s)
			}
		})},
	{"takes any end of the run for that of its window", "the end of another window is none of this one",
		before(func(c *claimCall) {
			events, _ := c.m.Read(context.Background(), watchdog.AggregateType, c.judged.RunID)
			for _, e := range events {
				if e.Type == watchdog.EventCancel {
					c.request.EndID = e.ID
				}
			}
		})},
	{"does not count an end that it found stored", "a lease is told of a stored end that is written down",
		forgetsEnd("claimed")},
	{"notifies of its own cancels only", "a listener is notified of a stored end that is written down",
		notifies(func(c *listenCall, runID string) []string {
			if runID == "run-1" && c.row(runID).Claim == "" {
				return []string{"another"}
			}
			return []string{runID}
		})},
}
