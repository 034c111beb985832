package sessiontest_test

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func observes(change func(c *call, l *lease)) fault {
	return after("ObserveLeases", func(c *call) { each(c.leases, func(l *lease) { change(c, l) }) })
}

// leaving is a fault in the rows that leave an expired lease.
func leaving(change func(l lease, before row, s *row)) fault {
	return around("ExpireLease", func(c *call, next func()) {
		there, named := c.leaseOf(c.l.ID), c.rowsOf(c.l.ID)
		if next(); !c.expired || c.err != nil || len(named) > 10 {
			return
		}
		for _, before := range named {
			c.edit(before.RunID, func(s *row) { change(there, before, s) })
		}
	})
}

// leavesAt is leaving with another time of the last event for some rows.
func leavesAt(at func(l lease) time.Time, which func(l lease, before row) bool) fault {
	return leaving(func(l lease, before row, s *row) { setIf(which(l, before), &s.LastEventAt, at(l)) })
}

// leaseBegan returns the start of a lease, by the clock of the store.
func leaseBegan(l lease) time.Time { return l.RenewedAt.Add(-l.Clock) }

func forget(s *row) { s.Expired = session.ExpiredLease{} }

// forgetting is a fault in the lease that expired of run-1.
func forgetting(change func(s *row)) fault {
	return leaving(func(_ lease, _ row, s *row) {
		if s.RunID == "run-1" {
			change(s)
		}
	})
}

// forgetsJudged is a fault in which a call about a judged session has it forget the lease that expired.
func forgetsJudged(method string) fault {
	return after(method, func(c *call) {
		if runID := c.judged.RunID; c.err == nil && slices.Contains([]string{"claimed", "warned", "kept"}, runID) {
			c.edit(runID, forget)
		}
	})
}

// forgetsEnd is a fault in which no lease is told of the ends of a run.
func forgetsEnd(runID string) fault { return after("Ended", func(c *call) { c.without(runID) }) }

func (c *call) without(runID string) {
	c.named = slices.DeleteFunc(c.named, func(a attempt) bool { return a.RunID == runID })
}

// tellsOf is a fault in which leases are told of the first attempt of a run, too.
func tellsOf(runID string, which func(c *call) bool) fault {
	return after("Ended", func(c *call) {
		setIf(which(c), &c.named, append(c.named, attempt{RunID: runID, Attempt: 1}))
	})
}

var brokenLeases = []broken{
	{"keeps the promise of a lease in milliseconds", "a lease is read as it was begun",
		before("BeginLease", func(c *call) { c.l.Promise = c.l.Promise.Truncate(time.Millisecond) })},
	{"begins a lease again", "beginning a lease that lives", around("BeginLease", func(c *call, next func()) {
		there := c.leaseOf(c.l.ID)
		if next(); c.err == nil && there.Beat >= 2 {
			_, _, c.err = c.m.ExpireLease(c.ctx, there)
			next()
		}
	})},
	{"begins a lease with any promise", "a lease with a promise",
		before("BeginLease", func(c *call) { c.l.Promise = max(min(c.l.Promise, session.LongestPromise), 0) })},
	{"keeps the clock of a renewal in microseconds", "a lease is read as it was begun",
		before("RenewLease", func(c *call) { c.l.Clock = c.l.Clock.Truncate(time.Microsecond) })},
	{"takes back what was vouched for", "nothing that a renewal writes",
		observes(func(_ *call, l *lease) { setIf(l.Beat == 3 && l.Vouched == time.Hour, &l.Vouched, time.Hour-1) })},
	{"makes a lease by a renewal", "a lease that was never begun", around("RenewLease", func(c *call, next func()) {
		if next(); c.l.Beat == 2 && c.l.Promise == time.Second {
			c.err = c.m.BeginLease(c.ctx, c.l)
		}
	})},
	{"observes only the suspects", "all leases are observed", after("ObserveLeases", func(c *call) {
		if len(c.leases) == 5 && len(c.suspects) > 0 {
			c.leases = slices.DeleteFunc(c.leases, func(l lease) bool { return !slices.Contains(c.suspects, l.ID) })
		}
	})},
	{"notes in a lease when it was observed", "to observe a lease", func() alteration {
		looks := 0
		return observes(func(c *call, l *lease) {
			if len(c.suspects) == 1 && l.Beat == 2 && l.Vouched == time.Hour {
				looks++
				l.RenewedAt = l.RenewedAt.Add(time.Duration(looks) * time.Second)
			}
		})()
	}},
	{"keeps a snapshot of the leases that it observed", "to observe a lease", func() alteration {
		seen := map[string]lease{}
		return observes(func(c *call, l *lease) {
			setIf(l.Vouched == time.Hour+time.Second && len(seen) > 0, l, seen[l.ID])
			if len(c.suspects) == 1 {
				seen[l.ID] = *l
			}
		})()
	}},
	{"returns ended sessions of a lease too", "the sessions of a lease", after("LeaseSessions", func(c *call) {
		ended := c.row("ended").Status == finished && c.row("second").Attempt == 2 && c.lease == "lease-1"
		setIf(ended, &c.named, append(c.named, attempt{RunID: "ended", Attempt: 1}))
	})},
	{"expires a lease whatever its beat is", "a lease that was renewed", before("ExpireLease", func(c *call) {
		there := c.leaseOf(c.l.ID)
		setIf(!there.Expired, &c.l.Beat, there.Beat)
	})},
	{"cannot expire what is not there", "a lease that was renewed", around("ExpireLease", func(c *call, next func()) {
		there := c.leaseOf(c.l.ID)
		next()
		setIf(there.ID == "" && c.err == nil, &c.err, errNoRows)
	})},
	{"takes the renewal of a lease for the last activity", "a session leaves its lease with",
		leavesAt(func(l lease) time.Time { return l.RenewedAt },
			func(_ lease, before row) bool { return before.Activity > 9*time.Hour })},
	{"takes no activity for one at the start of the lease", "a session leaves its lease with",
		leavesAt(leaseBegan, func(l lease, before row) bool {
			return before.Activity == noActivity && l.Vouched == 10*time.Hour
		})},
	{"forgets an attach after the last activity", "a session leaves its lease with",
		leavesAt(leaseBegan, func(l lease, before row) bool { return before.Activity == 0 && l.Vouched == 10*time.Hour })},
	{"finds NULL greater than any time", "a session leaves its lease with",
		leavesAt(func(lease) (none time.Time) { return none },
			func(_ lease, before row) bool { return before.LastEventAt.IsZero() })},
	{"leaves the thresholds of a lease switched off", "a session that left its lease",
		leaving(func(_ lease, before row, s *row) {
			setIf(before.Threshold == time.Minute, &s.Threshold, watchdog.NoLimit)
		})},
	{"keeps an expired lease without sessions", "expired lease takes", around("ExpireLease", func(c *call, next func()) {
		there, named := c.leaseOf(c.l.ID), c.rowsOf(c.l.ID)
		if next(); c.err == nil && len(named) == 1 && named[0].RunID == "dead" {
			c.err = c.m.BeginLease(c.ctx, there)
		}
	})},
	{"reads each session of a lease", "an unreadable session leaves", around("ExpireLease", func(c *call, next func()) {
		named, _ := c.m.LeaseSessions(c.ctx, c.l.ID)
		for _, a := range named {
			if _, c.err = c.m.Session(c.ctx, a.RunID); errors.Is(c.err, session.ErrUnreadable) {
				return
			}
		}
		next()
	})},
	{"compares the beat of a lease that has expired", "in batches", fails("ExpireLease", nil, func(c *call) bool {
		c.left = len(c.rowsOf(c.l.ID))
		there := c.leaseOf(c.l.ID)
		return there.Expired && there.Beat != c.l.Beat
	})},
	{"forgets that a process was lost", "a session is lost", before("ExpireLease", func(c *call) { c.l.Lost = false })},
	{"takes every process for lost", "a session is lost",
		leaving(func(_ lease, _ row, s *row) { s.Lost = s.Lost || s.RunID == "stopped" })},
	{"begins an expired lease again", "a lease that has expired never",
		after("BeginLease", func(c *call) { setIf(errors.Is(c.err, session.ErrLeaseExpired), &c.err, nil) })},
	{"attaches before it looks at the lease", "a lease that has expired never", after("Attach", func(c *call) {
		if c.s.Lease = ""; errors.Is(c.err, session.ErrLeaseExpired) {
			_, _, _ = c.m.Attach(c.ctx, c.s)
		}
	})},
	{"takes out rows that another lease has claimed", "keeper claims back", drops(func(c *call, s row, _ freshness) bool {
		to := c.leaseOf(c.lease)
		return s.Lease != c.lease && c.leaseOf(s.Lease).Expired && to.ID != "" && !to.Expired
	})},
	{"finds the sessions of an expired lease by what it vouched for", "names an expired", also(func(c *call, s row) bool {
		return c.q.Limit == 2*session.ExpireBatch && c.leaseOf("lease-1").Expired && strings.HasPrefix(s.RunID, "run-")
	})},
	{"remembers no lease that expired", "a session that left an expired lease", forgetting(forget)},
	{"remembers only the name of a lease that expired", "a session that left an expired lease",
		forgetting(func(s *row) { s.Expired.Looks = 0 })},
	{"lists no lease that expired", "left an expired", after("List", func(c *call) { each(c.listed.Sessions, forget) })},
	{"finds stalled sessions without the lease that expired", "a session that left an expired lease",
		after("Stalled", func(c *call) { each(c.page.Sessions, forget) })},
	{"remembers the first batch only", "leaves an expired lease late", around("ExpireLease", func(c *call, next func()) {
		there, named := c.leaseOf(c.l.ID), c.rowsOf(c.l.ID)
		if next(); there.Expired && len(named) == 1 && c.left == 0 && c.err == nil {
			c.edit(named[0].RunID, forget)
		}
	})},
	{"hides the lease that expired while another has the row", "forgets the lease that expired", func() alteration {
		var hidden session.ExpiredLease
		return both(freshens(func(s row, _ *freshness) { setIf(s.RunID == "back", &hidden, s.Expired) }),
			after("End", func(c *call) { c.edit("back", func(s *row) { s.Expired = hidden }) }))()
	}},
	{"keeps the lease of the attempt before", "forgets the lease that expired",
		attaches(func(before, _ row, after *row) { setIf(before.RunID == "again", &after.Expired, before.Expired) })},
	{"forgets the lease that expired when a session is claimed", "keeps the lease that expired", forgetsJudged("Claim")},
	{"forgets the lease that expired when a session is warned", "keeps the lease that expired", forgetsJudged("Warn")},
	{"forgets the lease that expired when a session is cancelled", "keeps the lease that expired",
		forgetsJudged("Cancel")},
	{"forgets what it has told", "a lease is told of each",
		after("Ended", func(c *call) { _, _ = c.m.Ended(c.ctx, c.lease, c.named) })},
	{"never forgets", "a lease is told of each",
		before("Ended", func(c *call) { setIf(len(c.told) > 0 && c.told[0].Attempt > 1, &c.told, nil) })},
	{"forgets all that lie between", "each lease is told of its own",
		before("Ended", func(c *call) { setIf(len(c.told) > 1, &c.told, append(c.told, attempt{RunID: "b", Attempt: 1})) })},
	{"forgets for every lease", "each lease is told of its own",
		before("Ended", func(c *call) { _, _ = c.m.Ended(c.ctx, "lease-2", c.told) })},
	{"tells of all that has ended", "nobody is told of",
		tellsOf("finished", func(c *call) bool { return c.row("finished").Status == finished })},
	{"tells somebody in any case", "nobody is told of",
		tellsOf("run-1", func(c *call) bool { return c.lease == "" && c.row("run-1").Status == cancelled })},
	{"does not tell of each of a batch", "together the leases", after("Ended", func(c *call) {
		if len(c.named) == 3 {
			c.without("b")
		}
	})},
	{"keeps what a lease was not told", "goes with it", func() alteration {
		expired := false
		return both(before("ExpireLease", func(*call) { expired = true }), tellsOf("run-1", func(c *call) bool {
			return expired && c.lease == "lease-1" && c.row("run-1").Status == cancelled
		}))()
	}},
}
