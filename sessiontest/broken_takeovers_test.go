package sessiontest_test

import (
	"bytes"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var brokenTakeovers = []broken{
	{"keeps the activity of the attempt before", "attaching under a lease names it, without an activity",
		attaches(func(before, _ session.Session, after *session.Session) {
			if before.Lease == after.Lease && before.Activity == time.Hour {
				after.Activity = before.Activity
			}
		})},
	{"keeps the state of the attempt before",
		"attaching again clears the lease, the warning, the claim and the state of the attempt before",
		attaches(func(before, s session.Session, after *session.Session) {
			if s.State == nil {
				after.State = before.State
			}
		})},
	{"keeps that a stop failed", "attaching again clears that the agents could not be stopped",
		attaches(func(before, _ session.Session, after *session.Session) { after.StopFailed = before.StopFailed })},
	{"counts its own attempts", "attaching with an attempt makes a lost row again, with that attempt",
		attaches(func(before, s session.Session, after *session.Session) {
			if s.Attempt > 0 && s.RunID == "run-1" && before.Attempt < s.Attempt {
				after.Attempt = before.Attempt + 1
			}
		})},
	{"takes a run back", "attaching with an attempt that is in the row, or is over, changes nothing",
		before(when(func(c *attachCall) bool { return c.s.Attempt == 2 },
			func(c *attachCall) { c.s.Attempt = 0 }))},
	{"does not count takeovers", "a lease is told of an attempt that is followed by another before it ended",
		forgetsEnd("lost")},
	{"notifies of each attach", "a listener is notified of each takeover, and of no other attach",
		notifies(func(_ *listenCall, runID string) []string {
			if runID == "taken over" {
				return []string{"new", runID}
			}
			return []string{runID}
		})},
	{"keeps the numbers of a state as floats", "a state is read as it was written",
		looks(func(s *session.Session) {
			s.State = bytes.Replace(s.State, []byte("12345678901234567890.125"), []byte("12345678901234567000"), 1)
		})},
}

// notifies is a fault in what a listener is told.
func notifies(of func(c *listenCall, runID string) []string) fault {
	return before(func(c *listenCall) {
		tell := c.tell
		c.tell = func(runID string) {
			for _, told := range of(c, runID) {
				tell(told)
			}
		}
	})
}
