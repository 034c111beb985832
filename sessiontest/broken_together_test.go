package sessiontest_test

import (
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/session"
)

// misjudges is a fault in what sessions are judged by when they are cancelled together.
func misjudges(change func(c *cancelAllCall, one *session.BatchedCancel)) fault {
	return before(func(c *cancelAllCall) {
		for i := range c.all {
			change(c, &c.all[i])
		}
	})
}

// boastsTogether is a fault in which the cancel of one of several sessions returns Done.
func boastsTogether(instead session.Outcome, which func(c *cancelAllCall, s session.Session) bool) fault {
	return after(func(c *cancelAllCall) {
		for i, outcome := range c.outcomes {
			if outcome == instead && which(c, c.all[i].Judged) {
				c.outcomes[i] = session.Done
			}
		}
	})
}

var brokenTogether = []broken{
	{"cancels sessions together for the reason of nobody",
		"sessions that are cancelled together each have their own row and events",
		after(func(c *cancelAllCall) {
			others := slices.ContainsFunc(c.outcomes, func(o session.Outcome) bool { return o != session.Done })
			if c.err == nil && !others && c.all[0].Request.By == "pass-1" {
				s := c.row(c.all[2].Judged.RunID)
				s.Reason = ""
				c.put(s)
			}
		})},
	{"cancels together what woke up",
		"of sessions that are cancelled together one that woke up is left alone, and the others are cancelled",
		misjudges(func(c *cancelAllCall, one *session.BatchedCancel) {
			one.Judged.LastEventAt = c.row(one.Judged.RunID).LastEventAt
		})},
	{"cancels together what another has claimed",
		"of sessions that are cancelled together one that is claimed is left alone, and the others are cancelled",
		misjudges(func(c *cancelAllCall, one *session.BatchedCancel) {
			if by := c.row(one.Judged.RunID).Claim; by == "pass-2" {
				one.Request.By = by
			}
		})},
	{"overlooks a stored end when it cancels together",
		"of sessions that are cancelled together one whose end is stored has that end, " +
			"at the latest after a cancel alone",
		boastsTogether(session.EndStored, func(*cancelAllCall, session.Session) bool { return true })},
	{"cancels together in a transaction each", "of sessions that are cancelled together none is if an event is invalid",
		around(func(c *cancelAllCall, _ func()) { c.cancelEach() })},
	{"calls a session cancelled that another cancels",
		"of eight that cancel the same sessions together one cancels each, and only its events are stored",
		boastsTogether(session.Changed, func(c *cancelAllCall, s session.Session) bool {
			return strings.HasPrefix(c.row(s.RunID).Claim, "caller ")
		})},
}
