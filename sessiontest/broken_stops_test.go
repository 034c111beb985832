package sessiontest_test

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var brokenStops = []broken{
	{"does not note that a stop failed", "a claim can note that the agents were stopped, and whether that failed",
		before(when(func(c *claimCall) bool { return strings.HasPrefix(c.judged.RunID, "failed-") },
			func(c *claimCall) { c.request.StopFailed = false }))},
	{"lets a sweeper claim that does not know of the stop",
		"a session that was judged before its agents were stopped cannot be claimed, and can be cancelled",
		before(func(c *claimCall) { c.judged.Stopped = c.row(c.judged.RunID).Stopped })},
	{"keeps the note of a stop beside an end", "after the end of a session no row says that its agents were stopped",
		looks(func(s *session.Session) {
			if s.Status == session.Finished && s.Reason == "" && s.Claim == "pass-1" {
				s.StopFailed = true
			}
		})},
	{"takes a warning for a stop",
		"a warning and a stop are noted beside each other, each until the session gives a sign of life",
		looks(func(s *session.Session) {
			if !s.WarnedAt.IsZero() && s.Activity == time.Second && s.Claim == "pass-1" {
				s.Stopped = true
			}
		})},
	{"keeps the note of a stop beside an activity", "the note that agents were stopped is void after an activity",
		looks(when(func(s *session.Session) bool { return s.Activity == 1 && s.Claim == "pass-1" },
			func(s *session.Session) { s.Stopped = true }))},
	{"keeps the note of a stop in the next attempt", "the note that agents were stopped is void after an attach",
		func() alteration {
			var stopped atomic.Bool // rules claim from several goroutines
			return both(before(func(c *claimCall) {
				if c.request.Stopped {
					stopped.Store(true)
				}
			}), after(func(c *sessionCall) {
				c.s.Stopped = c.s.Stopped || stopped.Load() && c.s.Attempt == 2
			}))()
		}},
}
