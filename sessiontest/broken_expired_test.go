package sessiontest_test

import (
	"context"
	"slices"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// forgetting returns a store that forgets the lease that expired of a run, or names another.
func forgetting(runID string, change func(e *session.ExpiredLease)) func() session.Store {
	return leaving(func(_ session.Lease, _ session.Session, s *session.Session) {
		if s.RunID == runID {
			change(&s.Expired)
		}
	})
}

var brokenExpired = []broken{
	{
		"remembers no lease that expired",
		"a session that left an expired lease says which, whoever reads it, and no other does",
		forgetting("run-1", func(e *session.ExpiredLease) { *e = session.ExpiredLease{} }),
	},
	{
		"remembers only the name of a lease that expired",
		"a session that left an expired lease says which, whoever reads it, and no other does",
		forgetting("run-1", func(e *session.ExpiredLease) { e.Looks = 0 }),
	},
	{
		"lists no lease that expired",
		"a session that left an expired lease says which, whoever reads it, and no other does",
		shows(func(_ *session.Memory, _ session.ListQuery, page *session.ListPage) error {
			for i := range page.Sessions {
				page.Sessions[i].Expired = session.ExpiredLease{}
			}
			return nil
		}),
	},
	{
		"finds stalled sessions without the lease that expired",
		"a session that left an expired lease says which, whoever reads it, and no other does",
		with(func(a *altered) {
			a.stalled = func(m *session.Memory, ctx context.Context, q session.Query) (session.Page, error) {
				page, err := m.Stalled(ctx, q)
				for i := range page.Sessions {
					page.Sessions[i].Expired = session.ExpiredLease{}
				}
				return page, err
			}
		}),
	},
	{
		"remembers the first batch only", "a session that leaves an expired lease late says which, too",
		with(func(a *altered) {
			a.expire = func(m *session.Memory, ctx context.Context, l session.Lease) (expired bool, left int, err error) {
				named := rowsOf(m, l.ID)
				late := lease(m, l.ID).Expired && len(named) == 1
				expired, left, err = m.ExpireLease(ctx, l)
				if late && left == 0 && err == nil {
					s := row(m, named[0].RunID)
					s.Expired = session.ExpiredLease{}
					err = m.Put(ctx, s)
				}
				return expired, left, err
			}
		}),
	},
	{
		"hides the lease that expired while another has the row",
		"a session that is claimed back forgets the lease that expired, for good",
		with(func(a *altered) {
			var before session.ExpiredLease
			a.freshen = func(
				m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness,
			) (session.Skipped, error) {
				if len(fresh) == 1 && fresh[0].RunID == "back" {
					before = row(m, "back").Expired
				}
				return m.Freshen(ctx, lease, fresh)
			}
			a.end = func(m *session.Memory, ctx context.Context, ends []session.Ending) (session.Skipped, error) {
				skipped, err := m.End(ctx, ends)
				if s := row(m, "back"); s.RunID != "" && err == nil {
					s.Expired = before
					err = m.Put(ctx, s)
				}
				return skipped, err
			}
		}),
	},
	{
		"keeps the lease of the attempt before", "the next attempt of a session knows no lease that expired",
		attaches(func(before, _ session.Session, after *session.Session) {
			if before.RunID == "again" {
				after.Expired = before.Expired
			}
		}),
	},
	{
		"forgets the lease that expired when a session is claimed",
		"a session keeps the lease that expired while it is claimed and warned, and when it was cancelled",
		with(func(a *altered) {
			a.claim = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.ClaimRequest,
			) (session.Outcome, error) {
				outcome, err := m.Claim(ctx, judged, c)
				return outcome, forget(m, judged.RunID, err)
			}
		}),
	},
	{
		"forgets the lease that expired when a session is warned",
		"a session keeps the lease that expired while it is claimed and warned, and when it was cancelled",
		with(func(a *altered) {
			a.warn = func(
				m *session.Memory, ctx context.Context, judged session.Session, events []watchdog.Event,
			) (session.Outcome, error) {
				outcome, err := m.Warn(ctx, judged, events)
				return outcome, forget(m, judged.RunID, err)
			}
		}),
	},
	{
		"forgets the lease that expired when a session is cancelled",
		"a session keeps the lease that expired while it is claimed and warned, and when it was cancelled",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				outcome, err := m.Cancel(ctx, judged, c)
				return outcome, forget(m, judged.RunID, err)
			}
		}),
	},
}

// forget has a run of the rule that is about it forget the lease that expired.
func forget(m *session.Memory, runID string, err error) error {
	s := row(m, runID)
	if err == nil && slices.Contains([]string{"claimed", "warned", "kept"}, runID) && s.Expired.ID != "" {
		s.Expired = session.ExpiredLease{}
		return m.Put(context.Background(), s)
	}
	return err
}
