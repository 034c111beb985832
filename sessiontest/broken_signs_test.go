package sessiontest_test

import (
	"context"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// claimsWith returns a store that changes the arguments of Claim.
func claimsWith(
	change func(m *session.Memory, judged *session.Session, c *session.ClaimRequest),
) func() session.Store {
	return with(func(a *altered) {
		a.claim = func(
			m *session.Memory, ctx context.Context, judged session.Session, c session.ClaimRequest,
		) (session.Outcome, error) {
			change(m, &judged, &c)
			return m.Claim(ctx, judged, c)
		}
	})
}

// warnsWith returns a store that changes the arguments of Warn.
func warnsWith(change func(m *session.Memory, judged *session.Session, events *[]watchdog.Event)) func() session.Store {
	return with(func(a *altered) {
		a.warn = func(
			m *session.Memory, ctx context.Context, judged session.Session, events []watchdog.Event,
		) (session.Outcome, error) {
			change(m, &judged, &events)
			return m.Warn(ctx, judged, events)
		}
	})
}

var brokenSigns = []broken{
	{
		"does not compare the activity",
		"a session that was active again is neither claimed nor warned nor cancelled",
		cancelsWith(func(m *session.Memory, judged *session.Session, _ *session.CancelRequest) {
			if s := row(m, judged.RunID); s.Lease == judged.Lease {
				judged.Activity = s.Activity
			}
		}),
	},
	{
		"compares only whether there is a lease",
		"a session that another lease has taken up is neither claimed nor warned nor cancelled",
		claimsWith(func(m *session.Memory, judged *session.Session, _ *session.ClaimRequest) {
			if s := row(m, judged.RunID); s.Lease != "" && judged.Lease != "" {
				judged.Lease = s.Lease
			}
		}),
	},
	{
		"does not see that a lease is gone",
		"a session whose lease has expired is neither claimed nor warned nor cancelled",
		warnsWith(func(m *session.Memory, judged *session.Session, _ *[]watchdog.Event) {
			if s := row(m, judged.RunID); s.Lease == "" && s.Activity == judged.Activity {
				judged.Lease = ""
			}
		}),
	},
	{
		"does not compare the attempt of a claim",
		"a session that was attached again is neither claimed nor warned nor cancelled",
		claimsWith(func(m *session.Memory, judged *session.Session, _ *session.ClaimRequest) {
			if s := row(m, judged.RunID); s.Attempt > judged.Attempt {
				*judged = s
			}
		}),
	},
	{
		"warns what has ended", "a session that has ended is neither claimed nor warned nor cancelled",
		warnsWith(func(m *session.Memory, judged *session.Session, _ *[]watchdog.Event) {
			if s := row(m, judged.RunID); s.Status == session.Finished {
				s.Status = session.Active
				_ = m.Put(context.Background(), s)
				*judged = s
			}
		}),
	},
	{
		"finds any lease equal to none",
		"a session that was put into a lease is neither claimed nor warned nor cancelled",
		cancelsWith(func(m *session.Memory, judged *session.Session, _ *session.CancelRequest) {
			if judged.Lease == "" {
				judged.Lease = row(m, judged.RunID).Lease
			}
		}),
	},
	{
		"warns a run that it does not know", "a run without a row is neither claimed nor warned",
		with(func(a *altered) {
			a.warn = func(
				m *session.Memory, ctx context.Context, judged session.Session, events []watchdog.Event,
			) (session.Outcome, error) {
				outcome, err := m.Warn(ctx, judged, events)
				if err == nil && row(m, judged.RunID).Attempt == 0 {
					outcome = session.Done
				}
				return outcome, err
			}
		}),
	},
}
