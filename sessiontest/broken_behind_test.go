package sessiontest_test

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// covered is the instant up to which a lease vouches for the rows that it does not name.
const covered = vouched + 24*time.Hour

var brokenBehinds = []broken{
	{"keeps the rows that are behind after they are written",
		"a renewal writes the rows that are behind, and the instant that counts for all others",
		before(when(func(c *renewCall) bool { return len(c.l.Behind) == 0 },
			func(c *renewCall) { c.l.Behind = c.leaseOf(c.l.ID).Behind }))},
	{"takes the rows that are behind from any renewal",
		"the rows that are behind are written only with a higher beat, and their instant never decreases",
		before(when(func(c *renewCall) bool { return len(c.l.Behind) > 0 },
			func(c *renewCall) { c.l.Beat = max(c.l.Beat, c.leaseOf(c.l.ID).Beat+1) }))},
	{"forgets the rows that are behind with a renewal that covers nothing",
		"a renewal that covers nothing leaves the rows that are behind",
		before(when(func(c *renewCall) bool { return c.l.Covered == 0 && c.leaseOf(c.l.ID).Covered > 0 },
			func(c *renewCall) { c.l.Covered = 1 }))},
	{"vouches for all rows alike",
		"a session that its lease names is silent up to its own instant, and every other up to that of the lease",
		looks(when(func(s *session.Session) bool { return s.Behind && s.Silence == 4*time.Second },
			func(s *session.Session) { s.Silence = covered - time.Second }))},
	{"finds sessions by the instant of the lease alone",
		"a session that its lease names is stalled by its own instant, and hides no other",
		also(func(_ *stalledCall, s session.Session) bool { return s.Behind })},
	{"does not look at the lease again before it claims",
		"a session that its lease names since it was found is neither claimed nor warned nor cancelled",
		before(func(c *claimCall) { c.judged.Silence = 0 })},
	{"does not look at the lease again before it warns",
		"a session that its lease names since it was found is neither claimed nor warned nor cancelled",
		before(func(c *warnCall) { c.judged.Silence = 0 })},
	{"does not look at the lease again before it cancels",
		"a session that its lease names since it was found is neither claimed nor warned nor cancelled",
		before(when(func(c *cancelCall) bool { return c.judged.Allowance == 0 },
			func(c *cancelCall) { c.judged.Silence = 0 }))},
}
