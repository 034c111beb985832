package sessiontest_test

import (
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

const vouched = 1000 * 24 * time.Hour

// also is a fault in which more sessions of the lease are stalled.
func also(which func(c *stalledCall, s session.Session) bool) fault {
	return after(func(c *stalledCall) {
		if c.q.Threshold == watchdog.NoLimit {
			return
		}
		for _, s := range c.rowsOf("lease-1") {
			known := slices.ContainsFunc(c.page.Sessions, func(p session.Session) bool { return p.RunID == s.RunID })
			if !known && which(c, s) {
				c.page.Sessions = append(c.page.Sessions, s)
			}
		}
	})
}

var brokenSilences = []broken{
	{"measures a silence from the start of the lease",
		"a quiet session is silent as far as its lease vouches for it, and another is not silent",
		looks(func(s *session.Session) {
			if s.Lease != "" && s.Activity == session.NoActivity && s.RunID == "run-2" {
				s.Silence = vouched
			}
		})},
	{"keeps the silence in the row", "each renewal vouches for more silence",
		looks(when(func(s *session.Session) bool { return s.Silence == vouched-time.Hour },
			func(s *session.Session) { s.Silence = 9 * time.Hour }))},
	{"takes the threshold of a lease for too long",
		"a session of a lease is stalled after more than its threshold, to the nanosecond",
		also(func(c *stalledCall, s session.Session) bool { return s.Silence > 0 && s.Silence == c.q.Threshold })},
	{"does not look whether a session is quiet", "a session of a lease that is not quiet is not stalled",
		also(func(c *stalledCall, s session.Session) bool {
			return s.Silence == 0 && s.Activity == 0 && s.Threshold == 0 && s.RunID == "run-0" &&
				c.q.Threshold < c.leaseOf("lease-1").Vouched
		})},
	{"writes later activities only", "a session becomes quiet with the activity that it has, and awake with the next",
		drops(func(c *freshenCall, s session.Session, f session.Freshness) bool {
			return s.Lease == c.lease && s.Activity == f.Activity && f.State == nil
		})},
	{"takes no activity for an old one", "a session of a lease that has not signalled is never stalled",
		also(func(c *stalledCall, s session.Session) bool {
			return s.Activity == session.NoActivity && s.Threshold > 0 && s.Threshold < c.leaseOf("lease-1").Vouched
		})},
	{"judges every session by the database's clock",
		"the database's clock says nothing about the silence of a session of a lease",
		also(func(c *stalledCall, s session.Session) bool {
			return s.RunID == "run-1" && c.page.Now.Sub(s.LastEventAt) > 300*24*time.Hour && s.Silence < c.q.Threshold
		})},
	{"does not look at the age of a session of a lease",
		"a session of a lease is old enough at its minimum age, by the database's clock",
		also(func(c *stalledCall, s session.Session) bool {
			return s.Silence > c.q.Threshold && c.page.Now.Sub(s.CreatedAt) < c.q.MinAge
		})},
	{"leaves out the silence of a stalled session",
		"a stalled session of a lease is returned exactly as its row is, with its silence",
		after(func(c *stalledCall) {
			for i := range c.page.Sessions {
				if c.q.Limit == 10 {
					c.page.Sessions[i].Silence = 0
				}
			}
		})},
	{"returns the sessions of leases last",
		"sessions with a lease and without one are ordered by when they exceeded their thresholds",
		after(func(c *stalledCall) {
			if c.page.Next == "" {
				slices.SortStableFunc(c.page.Sessions, func(a, b session.Session) int { return len(a.Lease) - len(b.Lease) })
			}
		})},
	{"pages through the sessions of leases only once",
		"pages of sessions with a lease and without one follow each other without a gap and without a repeat",
		misses(func(c *stalledCall, s session.Session) bool {
			return c.q.After != "" && s.Lease != "" && strings.HasPrefix(s.RunID, "run ")
		})},
	{"hides sessions that fell silent with the last of a page",
		"pages of sessions of one lease with the query's threshold follow each other, whenever they exceeded it",
		hidesOneTime(0)},
	{"hides sessions of one threshold that fell silent with the last of a page",
		"pages of sessions of one lease with a threshold of their own follow each other, whenever they exceeded it",
		hidesOneTime(time.Hour)},
}

// hidesOneTime is a fault in which a session with such a threshold is found only on the first page, if it fell silent
// in the first microsecond of its lease.
func hidesOneTime(own time.Duration) fault {
	return misses(func(c *stalledCall, s session.Session) bool {
		return c.q.After != "" && s.Lease != "" && s.Threshold == own && s.Activity == time.Microsecond
	})
}
