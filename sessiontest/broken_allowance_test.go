package sessiontest_test

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// allowed is the allowance in the rules.
const allowed = 500 * 24 * time.Hour

var brokenAllowances = []broken{
	{
		"shows what is beside an allowance",
		"an allowance is read as it was written, and there is no threshold beside it",
		looks(func(s *session.Session) {
			if s.Allowance > allowed {
				s.Threshold = s.Allowance
			}
		}),
	},
	{
		"keeps an allowance that there is no more", "an allowance ends with the attempt, and where the keeper has none any more",
		looks(func(s *session.Session) {
			if s.RunID == "allowed" && s.Lease != "" && s.Activity == time.Millisecond {
				s.Allowance = allowed
			}
		}),
	},
	{
		"keeps the allowance of a dead process", "a session that leaves its lease leaves its allowance behind",
		looks(func(s *session.Session) {
			if s.RunID == "allowed" && s.Lease == "" {
				s.Threshold = allowed
			}
		}),
	},
	{
		"looks at no allowance", "a session is stalled after more than its allowance and more than the threshold",
		also(func(_ session.Lease, s session.Session, q session.Query, _ time.Time) bool {
			return s.Allowance > 0 && s.Silence > q.Threshold
		}),
	},
	{
		"cancels within an allowance", "a session is not cancelled for a silence that its allowance covers",
		cancelsWith(func(_ *session.Memory, judged *session.Session, _ *session.CancelRequest) {
			if judged.Allowance > 0 {
				judged.Silence = 0
			}
		}),
	},
}
