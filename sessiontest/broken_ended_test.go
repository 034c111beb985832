package sessiontest_test

import (
	"context"
	"slices"

	"github.com/seed62658d38/watchdog/session"
)

// tellsBut returns a store that changes what Ended says.
func tellsBut(
	change func(m *session.Memory, lease string, ended []session.AttemptID) []session.AttemptID,
) func() session.Store {
	return with(func(a *altered) {
		a.ended = func(
			m *session.Memory, ctx context.Context, lease string, told []session.AttemptID,
		) ([]session.AttemptID, error) {
			ended, err := m.Ended(ctx, lease, told)
			return change(m, lease, ended), err
		}
	})
}

// without removes the ends of a run.
func without(runID string) func(*session.Memory, string, []session.AttemptID) []session.AttemptID {
	return func(_ *session.Memory, _ string, ended []session.AttemptID) []session.AttemptID {
		return slices.DeleteFunc(ended, func(a session.AttemptID) bool { return a.RunID == runID })
	}
}

var brokenEnded = []broken{
	{
		"forgets what it has told", "a lease is told of a session that is cancelled, until it says that it was told",
		with(func(a *altered) {
			a.ended = func(
				m *session.Memory, ctx context.Context, lease string, told []session.AttemptID,
			) ([]session.AttemptID, error) {
				ended, err := m.Ended(ctx, lease, told)
				_, _ = m.Ended(ctx, lease, ended)
				return ended, err
			}
		}),
	},
	{
		"never forgets", "a lease is told once more of a run that is cancelled again",
		with(func(a *altered) {
			a.ended = func(
				m *session.Memory, ctx context.Context, lease string, told []session.AttemptID,
			) ([]session.AttemptID, error) {
				if len(told) > 0 && told[0].Attempt > 1 {
					told = nil
				}
				return m.Ended(ctx, lease, told)
			}
		}),
	},
	{
		"forgets all that lie between", "what a lease was not told yet is not forgotten with what it was",
		with(func(a *altered) {
			a.ended = func(
				m *session.Memory, ctx context.Context, lease string, told []session.AttemptID,
			) ([]session.AttemptID, error) {
				if len(told) > 1 {
					told = append(told, session.AttemptID{RunID: "b", Attempt: 1})
				}
				return m.Ended(ctx, lease, told)
			}
		}),
	},
	{
		"forgets for every lease", "each lease is told of its own sessions only",
		with(func(a *altered) {
			a.ended = func(
				m *session.Memory, ctx context.Context, lease string, told []session.AttemptID,
			) ([]session.AttemptID, error) {
				_, _ = m.Ended(ctx, "lease-2", told)
				return m.Ended(ctx, lease, told)
			}
		}),
	},
	{
		"tells of all that has ended",
		"a lease is not told of what it ended itself, or of what has not ended",
		tellsBut(func(m *session.Memory, _ string, ended []session.AttemptID) []session.AttemptID {
			if row(m, "finished").Status == session.Finished {
				ended = append(ended, session.AttemptID{RunID: "finished", Attempt: 1})
			}
			return ended
		}),
	},
	{
		"tells somebody in any case", "of a session without a lease nobody is told when it is cancelled",
		tellsBut(func(m *session.Memory, lease string, ended []session.AttemptID) []session.AttemptID {
			if s := row(m, "run-1"); lease == "" && s.Status == session.Cancelled {
				ended = append(ended, session.AttemptID{RunID: "run-1", Attempt: 1})
			}
			return ended
		}),
	},
	{
		"does not tell of each of a batch", "of sessions that are cancelled together the leases are told",
		func() session.Store {
			batched := false
			return with(func(a *altered) {
				a.cancelAll = func(
					ctx context.Context, m *session.Memory, all []session.BatchedCancel,
				) ([]session.Outcome, error) {
					batched = true
					return cancelAll(ctx, m, all)
				}
				a.ended = func(
					m *session.Memory, ctx context.Context, lease string, told []session.AttemptID,
				) ([]session.AttemptID, error) {
					ended, err := m.Ended(ctx, lease, told)
					if batched {
						ended = without("b")(m, lease, ended)
					}
					return ended, err
				}
			})()
		},
	},
	{
		"keeps what a lease was not told", "what a lease was not told goes with it",
		func() session.Store {
			expired := false
			return with(func(a *altered) {
				a.expire = func(m *session.Memory, ctx context.Context, l session.Lease) (bool, int, error) {
					expired = true
					return m.ExpireLease(ctx, l)
				}
				a.ended = func(
					m *session.Memory, ctx context.Context, lease string, told []session.AttemptID,
				) ([]session.AttemptID, error) {
					ended, err := m.Ended(ctx, lease, told)
					if expired && lease == "lease-1" && row(m, "run-1").Status == session.Cancelled {
						ended = append(ended, session.AttemptID{RunID: "run-1", Attempt: 1})
					}
					return ended, err
				}
			})()
		},
	},
}
