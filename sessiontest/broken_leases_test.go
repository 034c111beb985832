package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// observes returns a store that changes what it observes.
func observes(change func(suspects []string, all []session.Lease) []session.Lease) func() session.Store {
	return with(func(a *altered) {
		a.observe = func(m *session.Memory, ctx context.Context, suspects []string) ([]session.Lease, error) {
			all, err := m.ObserveLeases(ctx, suspects)
			return change(suspects, all), err
		}
	})
}

// renews returns a store that changes a renewal.
func renews(change func(there session.Lease, l *session.Lease)) func() session.Store {
	return with(func(a *altered) {
		a.renew = func(m *session.Memory, ctx context.Context, l session.Lease) error {
			change(lease(m, l.ID), &l)
			return m.RenewLease(ctx, l)
		}
	})
}

// lease returns a lease, or an empty one if there is none.
func lease(m *session.Memory, id string) session.Lease {
	all, _ := m.ObserveLeases(context.Background(), nil)
	for _, l := range all {
		if l.ID == id {
			return l
		}
	}
	return session.Lease{}
}

var brokenLeases = []broken{
	{
		"keeps the promise of a lease in milliseconds", "a lease is read as it was begun, renewed now",
		with(func(a *altered) {
			a.begin = func(m *session.Memory, ctx context.Context, l session.Lease) error {
				l.Promise = l.Promise.Truncate(time.Millisecond)
				return m.BeginLease(ctx, l)
			}
		}),
	},
	{
		"begins a lease again", "beginning a lease that lives is no error and changes nothing",
		with(func(a *altered) {
			a.begin = func(m *session.Memory, ctx context.Context, l session.Lease) error {
				there := lease(m, l.ID)
				if err := m.BeginLease(ctx, l); err != nil || there.Beat < 2 {
					return err
				}
				_, _, err := m.ExpireLease(ctx, there)
				return errors.Join(err, m.BeginLease(ctx, l))
			}
		}),
	},
	{
		"begins a lease with any promise", "a lease with a promise that is too long, or negative, is an error and not made",
		with(func(a *altered) {
			a.begin = func(m *session.Memory, ctx context.Context, l session.Lease) error {
				l.Promise = max(min(l.Promise, session.LongestPromise), 0)
				return m.BeginLease(ctx, l)
			}
		}),
	},
	{
		"keeps the clock of a renewal in microseconds",
		"a renewal writes the beat, the clock and the instant vouched for, and the time",
		renews(func(_ session.Lease, l *session.Lease) { l.Clock = l.Clock.Truncate(time.Microsecond) }),
	},
	{
		"takes back what was vouched for", "nothing that a renewal writes ever decreases",
		observes(func(_ []string, all []session.Lease) []session.Lease {
			for i, l := range all {
				if l.Beat == 3 && l.Vouched == time.Hour {
					all[i].Vouched = time.Hour - 1
				}
			}
			return all
		}),
	},
	{
		"makes a lease by a renewal", "a lease that was never begun cannot be renewed",
		with(func(a *altered) {
			a.renew = func(m *session.Memory, ctx context.Context, l session.Lease) error {
				if ctx.Err() == nil && l.Beat == 2 && l.Promise == time.Second {
					return m.BeginLease(ctx, l)
				}
				return m.RenewLease(ctx, l)
			}
		}),
	},
	{
		"observes only the suspects", "all leases are observed, ordered by ID, whoever is a suspect",
		observes(func(suspects []string, all []session.Lease) []session.Lease {
			return slices.DeleteFunc(all, func(l session.Lease) bool {
				return len(all) == 5 && len(suspects) > 0 && !slices.Contains(suspects, l.ID)
			})
		}),
	},
	{
		"notes in a lease when it was observed", "to observe a lease does not change it",
		func() session.Store {
			looks := 0
			return observes(func(suspects []string, all []session.Lease) []session.Lease {
				looks += len(suspects)
				for i := range all {
					if len(suspects) == 1 && all[i].Beat == 2 && all[i].Vouched == time.Hour {
						all[i].RenewedAt = all[i].RenewedAt.Add(time.Duration(looks) * time.Second)
					}
				}
				return all
			})()
		},
	},
	{
		"keeps a snapshot of the leases that it observed", "a renewal between two looks at a suspect is seen by the second",
		func() session.Store {
			seen := map[string]session.Lease{}
			return observes(func(suspects []string, all []session.Lease) []session.Lease {
				for i, l := range all {
					if l.Vouched == time.Second && len(seen) > 0 {
						all[i] = seen[l.ID]
					}
					if len(suspects) == 1 {
						seen[l.ID] = l
					}
				}
				return all
			})()
		},
	},
	{
		"returns ended sessions of a lease too", "the sessions of a lease are its active ones, each with its attempt",
		with(func(a *altered) {
			a.sessions = func(m *session.Memory, ctx context.Context, id string) ([]session.AttemptID, error) {
				all, err := m.LeaseSessions(ctx, id)
				if s := row(m, "ended"); s.Status == session.Finished && row(m, "second").Attempt == 2 && id == "lease-1" {
					all = append(all, session.AttemptID{RunID: "ended", Attempt: s.Attempt})
				}
				return all, err
			}
		}),
	},
}

// expires returns a store that does more after a lease has expired.
func expires(after func(m *session.Memory, l session.Lease, named []session.Session)) func() session.Store {
	return with(func(a *altered) {
		a.expire = func(m *session.Memory, ctx context.Context, l session.Lease) (expired bool, left int, err error) {
			there, named := lease(m, l.ID), rowsOf(m, l.ID)
			expired, left, err = m.ExpireLease(ctx, l)
			if expired && err == nil {
				after(m, there, named)
			}
			return expired, left, err
		}
	})
}

// leaving returns a store that changes a row that leaves its lease.
func leaving(change func(l session.Lease, before session.Session, s *session.Session)) func() session.Store {
	return expires(func(m *session.Memory, l session.Lease, named []session.Session) {
		if len(named) > 10 {
			return
		}
		for _, before := range named {
			s := row(m, before.RunID)
			change(l, before, &s)
			_ = m.Put(context.Background(), s)
		}
	})
}

// rowsOf returns the active rows that name a lease.
func rowsOf(m *session.Memory, id string) (rows []session.Session) {
	all, _ := m.LeaseSessions(context.Background(), id)
	for _, a := range all {
		rows = append(rows, row(m, a.RunID))
	}
	return rows
}

var brokenExpires = []broken{
	{
		"expires a lease whatever its beat is", "a lease that was renewed since it was observed does not expire",
		with(func(a *altered) {
			a.expire = func(m *session.Memory, ctx context.Context, l session.Lease) (expired bool, left int, err error) {
				if there := lease(m, l.ID); !there.Expired {
					l.Beat = there.Beat
				}
				return m.ExpireLease(ctx, l)
			}
		}),
	},
	{
		"cannot expire what is not there", "a lease that is not there has expired",
		with(func(a *altered) {
			a.expire = func(m *session.Memory, ctx context.Context, l session.Lease) (expired bool, left int, err error) {
				if lease(m, l.ID).ID == "" && ctx.Err() == nil {
					return false, 0, errors.New("sql: no rows in result set")
				}
				return m.ExpireLease(ctx, l)
			}
		}),
	},
	{
		"takes the renewal of a lease for the last activity",
		"a session leaves its lease with the time of its last activity",
		leaving(func(l session.Lease, before session.Session, s *session.Session) {
			if before.Activity > 9*time.Hour {
				s.LastEventAt = l.RenewedAt
			}
		}),
	},
	{
		"takes no activity for one at the start of the lease",
		"a session that has not signalled leaves its lease with the time of its attach",
		leaving(func(l session.Lease, before session.Session, s *session.Session) {
			if before.Activity == session.NoActivity && l.Vouched == 10*time.Hour {
				s.LastEventAt = l.RenewedAt.Add(-l.Clock)
			}
		}),
	},
	{
		"forgets an attach after the last activity",
		"a session whose last activity was before its attach keeps the time of that",
		leaving(func(l session.Lease, before session.Session, s *session.Session) {
			if before.Activity == 0 && l.Vouched == 10*time.Hour {
				s.LastEventAt = l.RenewedAt.Add(-l.Clock)
			}
		}),
	},
	{
		"finds NULL greater than any time", "a session without events leaves its lease with its first",
		leaving(func(_ session.Lease, before session.Session, s *session.Session) {
			if before.LastEventAt.IsZero() {
				s.LastEventAt = time.Time{}
			}
		}),
	},
	{
		"leaves the thresholds of a lease switched off",
		"a session that left its lease is judged by its own threshold again, and others by the query's",
		leaving(func(_ session.Lease, before session.Session, s *session.Session) {
			if before.Threshold == time.Minute {
				s.Threshold = watchdog.NoLimit
			}
		}),
	},
	{
		"keeps an expired lease without sessions",
		"an expired lease takes only its own active sessions with it, and is deleted after the last",
		expires(func(m *session.Memory, l session.Lease, named []session.Session) {
			if len(named) == 1 && named[0].RunID == "dead" {
				_ = m.BeginLease(context.Background(), l)
			}
		}),
	},
	{
		"reads each session of a lease", "an unreadable session leaves its lease like others",
		with(func(a *altered) {
			a.expire = func(m *session.Memory, ctx context.Context, l session.Lease) (expired bool, left int, err error) {
				named, _ := m.LeaseSessions(ctx, l.ID)
				for _, a := range named {
					if _, err := m.Session(ctx, a.RunID); errors.Is(err, session.ErrUnreadable) {
						return false, 0, err
					}
				}
				return m.ExpireLease(ctx, l)
			}
		}),
	},
	{
		"compares the beat of a lease that has expired",
		"sessions leave an expired lease in batches, whatever beat the later calls name",
		with(func(a *altered) {
			a.expire = func(m *session.Memory, ctx context.Context, l session.Lease) (expired bool, left int, err error) {
				there := lease(m, l.ID)
				if there.Expired && there.Beat != l.Beat {
					return false, len(rowsOf(m, l.ID)), nil
				}
				return m.ExpireLease(ctx, l)
			}
		}),
	},
	{
		"forgets that a process was lost", "a session is lost if its process was, until a process takes it up or it ends",
		with(func(a *altered) {
			a.expire = func(m *session.Memory, ctx context.Context, l session.Lease) (expired bool, left int, err error) {
				l.Lost = false
				return m.ExpireLease(ctx, l)
			}
		}),
	},
	{
		"takes every process for lost", "a session that was not lost with its lease is not lost",
		leaving(func(_ session.Lease, _ session.Session, s *session.Session) { s.Lost = s.Lost || s.RunID == "stopped" }),
	},
	{
		"begins an expired lease again", "a lease that has expired never lives again",
		with(func(a *altered) {
			a.begin = func(m *session.Memory, ctx context.Context, l session.Lease) error {
				err := m.BeginLease(ctx, l)
				if errors.Is(err, session.ErrLeaseExpired) {
					err = nil
				}
				return err
			}
		}),
	},
	{
		"attaches before it looks at the lease",
		"nothing is attached under a lease that does not live, and nothing freshened",
		with(func(a *altered) {
			a.attach = func(
				m *session.Memory, ctx context.Context, s session.Session,
			) (session.Session, session.Session, error) {
				before, after, err := m.Attach(ctx, s)
				if errors.Is(err, session.ErrLeaseExpired) {
					s.Lease = ""
					_, _, attached := m.Attach(ctx, s)
					err = errors.Join(err, attached)
				}
				return before, after, err
			}
		}),
	},
	{
		"takes out rows that another lease has claimed",
		"a keeper claims back the sessions that still name its expired lease",
		with(func(a *altered) {
			a.freshen = func(
				m *session.Memory, ctx context.Context, to string, fresh []session.Freshness,
			) (session.Skipped, error) {
				kept := slices.DeleteFunc(slices.Clone(fresh), func(f session.Freshness) bool {
					from := row(m, f.RunID).Lease
					return from != to && lease(m, from).Expired && lease(m, to).ID != "" && !lease(m, to).Expired
				})
				return m.Freshen(ctx, to, kept)
			}
		}),
	},
	{
		"finds the sessions of an expired lease by what it vouched for",
		"a session that still names an expired lease is not stalled, and is not cancelled",
		answers(func(m *session.Memory, q session.Query, page *session.Page) {
			if q.Limit != 2*session.ExpireBatch {
				return
			}
			for _, s := range rowsOf(m, "lease-1") {
				if lease(m, "lease-1").Expired && strings.HasPrefix(s.RunID, "run-") {
					page.Sessions = append(page.Sessions, s)
				}
			}
		}),
	},
}
