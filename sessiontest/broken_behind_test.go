package sessiontest_test

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var brokenBehinds = []broken{
	{
		"keeps the rows that are behind after they are written",
		"a renewal writes the rows that are behind, and the instant that counts for all others",
		renews(func(there session.Lease, l *session.Lease) {
			if len(l.Behind) == 0 {
				l.Behind = there.Behind
			}
		}),
	},
	{
		"takes the rows that are behind from any renewal",
		"the rows that are behind are written only with a higher beat, and their instant never decreases",
		renews(func(there session.Lease, l *session.Lease) {
			if len(l.Behind) > 0 {
				l.Beat = max(l.Beat, there.Beat+1)
			}
		}),
	},
	{
		"vouches for all rows alike",
		"a session that its lease names is silent up to its own instant, and every other up to that of the lease",
		looks(func(s *session.Session) {
			if s.Behind && s.Silence == 4*time.Second {
				s.Silence = covered - time.Second
			}
		}),
	},
	{
		"finds sessions by the instant of the lease alone",
		"a session that its lease names is stalled by its own instant, and hides no other",
		also(func(_ session.Lease, s session.Session, _ session.Query, _ time.Time) bool { return s.Behind }),
	},
	{
		"does not look at the lease again before it claims",
		"a session that its lease names since it was found is neither claimed nor warned nor cancelled",
		claimsWith(func(_ *session.Memory, judged *session.Session, _ *session.ClaimRequest) { judged.Silence = 0 }),
	},
	{
		"does not look at the lease again before it warns",
		"a session that its lease names since it was found is neither claimed nor warned nor cancelled",
		warnsWith(func(_ *session.Memory, judged *session.Session, _ *[]watchdog.Event) { judged.Silence = 0 }),
	},
	{
		"does not look at the lease again before it cancels",
		"a session that its lease names since it was found is neither claimed nor warned nor cancelled",
		cancelsWith(func(_ *session.Memory, judged *session.Session, _ *session.CancelRequest) {
			if judged.Allowance == 0 {
				judged.Silence = 0
			}
		}),
	},
}

// covered is the instant up to which a lease vouches for the rows that it does not name.
const covered = vouched + 24*time.Hour
