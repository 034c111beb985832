package sessiontest_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

const vouched = 1000 * 24 * time.Hour

// also returns a store that finds more sessions of the lease stalled.
func also(which func(l session.Lease, s session.Session, q session.Query, now time.Time) bool) func() session.Store {
	return answers(func(m *session.Memory, q session.Query, page *session.Page) {
		if q.Threshold == watchdog.NoLimit {
			return
		}
		l := lease(m, "lease-1")
		for _, s := range rowsOf(m, "lease-1") {
			known := slices.ContainsFunc(page.Sessions, func(p session.Session) bool { return p.RunID == s.RunID })
			if !known && which(l, s, q, page.Now) {
				page.Sessions = append(page.Sessions, s)
			}
		}
	})
}

var brokenSilences = []broken{
	{
		"measures a silence from the start of the lease",
		"a quiet session is silent as far as its lease vouches for it, and another is not silent",
		looks(func(s *session.Session) {
			if s.Lease != "" && s.Activity == session.NoActivity && s.RunID == "run-2" {
				s.Silence = vouched
			}
		}),
	},
	{
		"keeps the silence in the row", "each renewal vouches for more silence",
		looks(func(s *session.Session) {
			if s.Silence == vouched-time.Hour {
				s.Silence = 9 * time.Hour
			}
		}),
	},
	{
		"takes the threshold of a lease for too long",
		"a session of a lease is stalled after more than its threshold, to the nanosecond",
		also(func(_ session.Lease, s session.Session, q session.Query, _ time.Time) bool {
			return s.Silence > 0 && s.Silence == q.Threshold
		}),
	},
	{
		"does not look whether a session is quiet", "a session of a lease that is not quiet is not stalled",
		also(func(l session.Lease, s session.Session, q session.Query, _ time.Time) bool {
			return s.Silence == 0 && s.Activity == 0 && s.Threshold == 0 && s.RunID == "run-0" && q.Threshold < l.Vouched
		}),
	},
	{
		"writes later activities only", "a session becomes quiet with the activity that it has, and awake with the next",
		with(func(a *altered) {
			a.freshen = func(
				m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness,
			) (session.Skipped, error) {
				later := slices.DeleteFunc(slices.Clone(fresh), func(f session.Freshness) bool {
					s := row(m, f.RunID)
					return s.Lease == lease && s.Activity == f.Activity && f.State == nil
				})
				return m.Freshen(ctx, lease, later)
			}
		}),
	},
	{
		"takes no activity for an old one", "a session of a lease that has not signalled is never stalled",
		also(func(l session.Lease, s session.Session, _ session.Query, _ time.Time) bool {
			return s.Activity == session.NoActivity && s.Threshold > 0 && s.Threshold < l.Vouched
		}),
	},
	{
		"judges every session by the database's clock",
		"the database's clock says nothing about the silence of a session of a lease",
		also(func(_ session.Lease, s session.Session, q session.Query, now time.Time) bool {
			return s.RunID == "run-1" && now.Sub(s.LastEventAt) > 300*24*time.Hour && s.Silence < q.Threshold
		}),
	},
	{
		"does not look at the age of a session of a lease",
		"a session of a lease is old enough at its minimum age, by the database's clock",
		also(func(_ session.Lease, s session.Session, q session.Query, now time.Time) bool {
			return s.Silence > q.Threshold && now.Sub(s.CreatedAt) < q.MinAge
		}),
	},
	{
		"leaves out the silence of a stalled session",
		"a stalled session of a lease is returned exactly as its row is, with its silence",
		answers(func(_ *session.Memory, q session.Query, page *session.Page) {
			for i := range page.Sessions {
				if q.Limit == 10 {
					page.Sessions[i].Silence = 0
				}
			}
		}),
	},
	{
		"returns the sessions of leases last",
		"sessions with a lease and without one are ordered by when they exceeded their thresholds",
		answers(func(_ *session.Memory, _ session.Query, page *session.Page) {
			if page.Next == "" {
				slices.SortStableFunc(page.Sessions, func(a, b session.Session) int { return len(a.Lease) - len(b.Lease) })
			}
		}),
	},
	{
		"pages through the sessions of leases only once",
		"pages of sessions with a lease and without one follow each other without a gap and without a repeat",
		answers(func(_ *session.Memory, q session.Query, page *session.Page) {
			if q.After != "" {
				page.Sessions = slices.DeleteFunc(page.Sessions, func(s session.Session) bool {
					return s.Lease != "" && strings.HasPrefix(s.RunID, "run ")
				})
			}
		}),
	},
	{
		"hides sessions that fell silent with the last of a page",
		"pages of sessions of one lease with the query's threshold follow each other, whenever they exceeded it",
		hidesOneTime(0),
	},
	{
		"hides sessions of one threshold that fell silent with the last of a page",
		"pages of sessions of one lease with a threshold of their own follow each other, whenever they exceeded it",
		hidesOneTime(time.Hour),
	},
}

// hidesOneTime returns a store that finds a session with such a threshold only on the first page, if it fell silent in
// the first microsecond of its lease.
func hidesOneTime(own time.Duration) func() session.Store {
	return answers(func(_ *session.Memory, q session.Query, page *session.Page) {
		if q.After == "" {
			return
		}
		page.Sessions = slices.DeleteFunc(page.Sessions, func(s session.Session) bool {
			return s.Lease != "" && s.Threshold == own && s.Activity == time.Microsecond
		})
	})
}
