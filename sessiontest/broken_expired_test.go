package sessiontest_test

import (
	"slices"

	"github.com/seed62658d38/watchdog/session"
)

// forgetting is a fault in the lease that expired of run-1.
func forgetting(change func(e *session.ExpiredLease)) fault {
	return leaving(func(_ session.Lease, _ session.Session, s *session.Session) {
		if s.RunID == "run-1" {
			change(&s.Expired)
		}
	})
}

// forget has a run of the rule that is about it forget the lease that expired.
func (c *judgedCall) forget() {
	s := c.row(c.judged.RunID)
	if c.err == nil && slices.Contains([]string{"claimed", "warned", "kept"}, s.RunID) && s.Expired.ID != "" {
		s.Expired = session.ExpiredLease{}
		c.put(s)
	}
}

var brokenExpired = []broken{
	{"remembers no lease that expired",
		"a session that left an expired lease says which, whoever reads it, and no other does",
		forgetting(func(e *session.ExpiredLease) { *e = session.ExpiredLease{} })},
	{"remembers only the name of a lease that expired",
		"a session that left an expired lease says which, whoever reads it, and no other does",
		forgetting(func(e *session.ExpiredLease) { e.Looks = 0 })},
	{"lists no lease that expired",
		"a session that left an expired lease says which, whoever reads it, and no other does",
		after(func(c *listCall) {
			for i := range c.page.Sessions {
				c.page.Sessions[i].Expired = session.ExpiredLease{}
			}
		})},
	{"finds stalled sessions without the lease that expired",
		"a session that left an expired lease says which, whoever reads it, and no other does",
		after(func(c *stalledCall) {
			for i := range c.page.Sessions {
				c.page.Sessions[i].Expired = session.ExpiredLease{}
			}
		})},
	{"remembers the first batch only", "a session that leaves an expired lease late says which, too",
		around(func(c *expireCall, next func()) {
			there, named := c.leaseOf(c.l.ID), c.rowsOf(c.l.ID)
			next()
			if there.Expired && len(named) == 1 && c.left == 0 && c.err == nil {
				s := c.row(named[0].RunID)
				s.Expired = session.ExpiredLease{}
				c.put(s)
			}
		})},
	{"hides the lease that expired while another has the row",
		"a session that is claimed back forgets the lease that expired, for good",
		func() alteration {
			var hidden session.ExpiredLease
			return both(before(func(c *freshenCall) {
				if len(c.fresh) == 1 && c.fresh[0].RunID == "back" {
					hidden = c.row("back").Expired
				}
			}), after(func(c *endCall) {
				if s := c.row("back"); s.RunID != "" && c.err == nil {
					s.Expired = hidden
					c.put(s)
				}
			}))()
		}},
	{"keeps the lease of the attempt before", "the next attempt of a session knows no lease that expired",
		attaches(func(before, _ session.Session, after *session.Session) {
			if before.RunID == "again" {
				after.Expired = before.Expired
			}
		})},
	{"forgets the lease that expired when a session is claimed",
		"a session keeps the lease that expired while it is claimed and warned, and when it was cancelled",
		after(func(c *claimCall) { c.forget() })},
	{"forgets the lease that expired when a session is warned",
		"a session keeps the lease that expired while it is claimed and warned, and when it was cancelled",
		after(func(c *warnCall) { c.forget() })},
	{"forgets the lease that expired when a session is cancelled",
		"a session keeps the lease that expired while it is claimed and warned, and when it was cancelled",
		after(func(c *cancelCall) { c.forget() })},
}
