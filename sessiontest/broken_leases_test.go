package sessiontest_test

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var brokenLeases = []broken{
	{"keeps the promise of a lease in milliseconds", "a lease is read as it was begun, renewed now",
		before(func(c *beginCall) { c.l.Promise = c.l.Promise.Truncate(time.Millisecond) })},
	{"begins a lease again", "beginning a lease that lives is no error and changes nothing",
		around(func(c *beginCall, next func()) {
			there := c.leaseOf(c.l.ID)
			if next(); c.err == nil && there.Beat >= 2 {
				_, _, c.err = c.m.ExpireLease(c.ctx, there)
				next()
			}
		})},
	{"begins a lease with any promise", "a lease with a promise that is too long, or negative, is an error and not made",
		before(func(c *beginCall) { c.l.Promise = max(min(c.l.Promise, session.LongestPromise), 0) })},
	{"keeps the clock of a renewal in microseconds",
		"a renewal writes the beat, the clock and the instant vouched for, and the time",
		before(func(c *renewCall) { c.l.Clock = c.l.Clock.Truncate(time.Microsecond) })},
	{"takes back what was vouched for", "nothing that a renewal writes ever decreases",
		after(func(c *observeCall) {
			for i, l := range c.all {
				if l.Beat == 3 && l.Vouched == time.Hour {
					c.all[i].Vouched = time.Hour - 1
				}
			}
		})},
	{"makes a lease by a renewal", "a lease that was never begun cannot be renewed",
		around(func(c *renewCall, next func()) {
			if c.l.Beat == 2 && c.l.Promise == time.Second {
				c.err = c.m.BeginLease(c.ctx, c.l)
				return
			}
			next()
		})},
	{"observes only the suspects", "all leases are observed, ordered by ID, whoever is a suspect",
		after(func(c *observeCall) {
			if len(c.all) == 5 && len(c.suspects) > 0 {
				c.all = slices.DeleteFunc(c.all, func(l session.Lease) bool { return !slices.Contains(c.suspects, l.ID) })
			}
		})},
	{"notes in a lease when it was observed", "to observe a lease does not change it",
		func() alteration {
			looks := 0
			return after(func(c *observeCall) {
				looks += len(c.suspects)
				for i, l := range c.all {
					if len(c.suspects) == 1 && l.Beat == 2 && l.Vouched == time.Hour {
						c.all[i].RenewedAt = l.RenewedAt.Add(time.Duration(looks) * time.Second)
					}
				}
			})()
		}},
	{"keeps a snapshot of the leases that it observed", "a renewal between two looks at a suspect is seen by the second",
		func() alteration {
			seen := map[string]session.Lease{}
			return after(func(c *observeCall) {
				for i, l := range c.all {
					if l.Vouched == time.Second && len(seen) > 0 {
						c.all[i] = seen[l.ID]
					}
					if len(c.suspects) == 1 {
						seen[l.ID] = l
					}
				}
			})()
		}},
	{"returns ended sessions of a lease too", "the sessions of a lease are its active ones, each with its attempt",
		after(func(c *leaseSessionsCall) {
			s := c.row("ended")
			if s.Status == session.Finished && c.row("second").Attempt == 2 && c.lease == "lease-1" {
				c.named = append(c.named, session.AttemptID{RunID: "ended", Attempt: s.Attempt})
			}
		})},
}

// leaving is a fault in the rows that leave an expired lease.
func leaving(change func(l session.Lease, before session.Session, s *session.Session)) fault {
	return around(func(c *expireCall, next func()) {
		there, named := c.leaseOf(c.l.ID), c.rowsOf(c.l.ID)
		if next(); !c.expired || c.err != nil || len(named) > 10 {
			return
		}
		for _, before := range named {
			s := c.row(before.RunID)
			change(there, before, &s)
			c.put(s)
		}
	})
}

var brokenExpires = []broken{
	{"expires a lease whatever its beat is", "a lease that was renewed since it was observed does not expire",
		before(func(c *expireCall) {
			if there := c.leaseOf(c.l.ID); !there.Expired {
				c.l.Beat = there.Beat
			}
		})},
	{"cannot expire what is not there", "a lease that is not there has expired",
		around(func(c *expireCall, next func()) {
			there := c.leaseOf(c.l.ID)
			if next(); there.ID == "" && c.err == nil {
				c.err = errors.New("sql: no rows in result set")
			}
		})},
	{"takes the renewal of a lease for the last activity",
		"a session leaves its lease with the time of its last activity",
		leaving(func(l session.Lease, before session.Session, s *session.Session) {
			if before.Activity > 9*time.Hour {
				s.LastEventAt = l.RenewedAt
			}
		})},
	{"takes no activity for one at the start of the lease",
		"a session that has not signalled leaves its lease with the time of its attach",
		leaving(func(l session.Lease, before session.Session, s *session.Session) {
			if before.Activity == session.NoActivity && l.Vouched == 10*time.Hour {
				s.LastEventAt = l.RenewedAt.Add(-l.Clock)
			}
		})},
	{"forgets an attach after the last activity",
		"a session whose last activity was before its attach keeps the time of that",
		leaving(func(l session.Lease, before session.Session, s *session.Session) {
			if before.Activity == 0 && l.Vouched == 10*time.Hour {
				s.LastEventAt = l.RenewedAt.Add(-l.Clock)
			}
		})},
	{"finds NULL greater than any time", "a session without events leaves its lease with its first",
		leaving(func(_ session.Lease, before session.Session, s *session.Session) {
			if before.LastEventAt.IsZero() {
				s.LastEventAt = time.Time{}
			}
		})},
	{"leaves the thresholds of a lease switched off",
		"a session that left its lease is judged by its own threshold again, and others by the query's",
		leaving(func(_ session.Lease, before session.Session, s *session.Session) {
			if before.Threshold == time.Minute {
				s.Threshold = watchdog.NoLimit
			}
		})},
	{"keeps an expired lease without sessions",
		"an expired lease takes only its own active sessions with it, and is deleted after the last",
		around(func(c *expireCall, next func()) {
			there, named := c.leaseOf(c.l.ID), c.rowsOf(c.l.ID)
			if next(); c.err == nil && len(named) == 1 && named[0].RunID == "dead" {
				c.err = c.m.BeginLease(c.ctx, there)
			}
		})},
	{"reads each session of a lease", "an unreadable session leaves its lease like others",
		around(func(c *expireCall, next func()) {
			named, _ := c.m.LeaseSessions(c.ctx, c.l.ID)
			for _, a := range named {
				if _, c.err = c.m.Session(c.ctx, a.RunID); errors.Is(c.err, session.ErrUnreadable) {
					return
				}
			}
			next()
		})},
	{"compares the beat of a lease that has expired",
		"sessions leave an expired lease in batches, whatever beat the later calls name",
		around(func(c *expireCall, next func()) {
			if there := c.leaseOf(c.l.ID); there.Expired && there.Beat != c.l.Beat {
				c.left = len(c.rowsOf(c.l.ID))
				return
			}
			next()
		})},
	{"forgets that a process was lost", "a session is lost if its process was, until a process takes it up or it ends",
		before(func(c *expireCall) { c.l.Lost = false })},
	{"takes every process for lost", "a session that was not lost with its lease is not lost",
		leaving(func(_ session.Lease, _ session.Session, s *session.Session) { s.Lost = s.Lost || s.RunID == "stopped" })},
	{"begins an expired lease again", "a lease that has expired never lives again",
		after(when(func(c *beginCall) bool { return errors.Is(c.err, session.ErrLeaseExpired) },
			func(c *beginCall) { c.err = nil }))},
	{"attaches before it looks at the lease",
		"nothing is attached under a lease that does not live, and nothing freshened",
		after(func(c *attachCall) {
			if errors.Is(c.err, session.ErrLeaseExpired) {
				c.s.Lease = ""
				_, _, err := c.m.Attach(c.ctx, c.s)
				c.err = errors.Join(c.err, err)
			}
		})},
	{"takes out rows that another lease has claimed",
		"a keeper claims back the sessions that still name its expired lease",
		drops(func(c *freshenCall, s session.Session, _ session.Freshness) bool {
			to := c.leaseOf(c.lease)
			return s.Lease != c.lease && c.leaseOf(s.Lease).Expired && to.ID != "" && !to.Expired
		})},
	{"finds the sessions of an expired lease by what it vouched for",
		"a session that still names an expired lease is not stalled, and is not cancelled",
		after(func(c *stalledCall) {
			if c.q.Limit != 2*session.ExpireBatch || !c.leaseOf("lease-1").Expired {
				return
			}
			for _, s := range c.rowsOf("lease-1") {
				if strings.HasPrefix(s.RunID, "run-") {
					c.page.Sessions = append(c.page.Sessions, s)
				}
			}
		})},
}
