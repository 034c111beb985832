package sessiontest_test

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// allowed is the allowance in the rules.
const allowed = 500 * 24 * time.Hour

var brokenAllowances = []broken{
	{"shows what is beside an allowance",
		"an allowance is read as it was written, and there is no threshold beside it",
		looks(when(func(s *session.Session) bool { return s.Allowance > allowed },
			func(s *session.Session) { s.Threshold = s.Allowance }))},
	{"keeps an allowance that there is no more",
		"an allowance ends with the attempt, and where the keeper has none any more",
		looks(func(s *session.Session) {
			if s.RunID == "allowed" && s.Lease != "" && s.Activity == time.Millisecond {
				s.Allowance = allowed
			}
		})},
	{"keeps the allowance of a dead process", "a session that leaves its lease leaves its allowance behind",
		looks(when(func(s *session.Session) bool { return s.RunID == "allowed" && s.Lease == "" },
			func(s *session.Session) { s.Threshold = allowed }))},
	{"looks at no allowance", "a session is stalled after more than its allowance and more than the threshold",
		also(func(c *stalledCall, s session.Session) bool { return s.Allowance > 0 && s.Silence > c.q.Threshold })},
	{"cancels within an allowance", "a session is not cancelled for a silence that its allowance covers",
		before(when(func(c *cancelCall) bool { return c.judged.Allowance > 0 },
			func(c *cancelCall) { c.judged.Silence = 0 }))},
}
