package sessiontest_test

import (
	"context"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/session"
)

// cancelAll does what a BatchCanceller does, on a memory that nobody else writes to meanwhile.
func cancelAll(ctx context.Context, m *session.Memory, all []session.BatchedCancel) ([]session.Outcome, error) {
	for _, c := range all {
		for _, e := range c.Request.Events {
			if err := e.Validate(); err != nil {
				return nil, err
			}
		}
	}
	return cancelEach(ctx, m, all)
}

// cancelEach does not keep the sessions together.
func cancelEach(ctx context.Context, m *session.Memory, all []session.BatchedCancel) ([]session.Outcome, error) {
	outcomes := make([]session.Outcome, len(all))
	for i, c := range all {
		outcome, err := m.Cancel(ctx, c.Judged, c.Request)
		if err != nil {
			return nil, err
		}
		outcomes[i] = outcome
	}
	return outcomes, nil
}

// cancelsAllWith returns a store with another CancelAll.
func cancelsAllWith(
	call func(ctx context.Context, m *session.Memory, all []session.BatchedCancel) ([]session.Outcome, error),
) func() session.Store {
	return with(func(a *altered) { a.cancelAll = call })
}

// cancelsAllBut returns a store whose CancelAll changes what one session is judged by.
func cancelsAllBut(change func(m *session.Memory, c *session.BatchedCancel)) func() session.Store {
	return cancelsAllWith(func(
		ctx context.Context, m *session.Memory, all []session.BatchedCancel,
	) ([]session.Outcome, error) {
		all = slices.Clone(all)
		for i := range all {
			change(m, &all[i])
		}
		return cancelAll(ctx, m, all)
	})
}

var brokenTogether = []broken{
	{
		"cancels sessions together for the reason of nobody",
		"sessions that are cancelled together each have their own row and events",
		cancelsAllWith(func(
			ctx context.Context, m *session.Memory, all []session.BatchedCancel,
		) ([]session.Outcome, error) {
			outcomes, err := cancelAll(ctx, m, all)
			if err == nil && !slices.ContainsFunc(outcomes, func(o session.Outcome) bool { return o != session.Done }) &&
				all[0].Request.By == "pass-1" {
				s := row(m, all[2].Judged.RunID)
				s.Reason = ""
				err = m.Put(ctx, s)
			}
			return outcomes, err
		}),
	},
	{
		"cancels together what woke up",
		"of sessions that are cancelled together one that woke up is left alone, and the others are cancelled",
		cancelsAllBut(func(m *session.Memory, c *session.BatchedCancel) {
			c.Judged.LastEventAt = row(m, c.Judged.RunID).LastEventAt
		}),
	},
	{
		"cancels together what another has claimed",
		"of sessions that are cancelled together one that is claimed is left alone, and the others are cancelled",
		cancelsAllBut(func(m *session.Memory, c *session.BatchedCancel) {
			if by := row(m, c.Judged.RunID).Claim; by == "pass-2" {
				c.Request.By = by
			}
		}),
	},
	{
		"overlooks a stored end when it cancels together",
		"of sessions that are cancelled together one whose end is stored has that end, " +
			"at the latest after a cancel alone",
		cancelsAllWith(func(
			ctx context.Context, m *session.Memory, all []session.BatchedCancel,
		) ([]session.Outcome, error) {
			outcomes, err := cancelAll(ctx, m, all)
			for i, outcome := range outcomes {
				if outcome == session.EndStored {
					outcomes[i] = session.Done
				}
			}
			return outcomes, err
		}),
	},
	{
		"cancels together in a transaction each", "of sessions that are cancelled together none is if an event is invalid",
		cancelsAllWith(cancelEach),
	},
	{
		"calls a session cancelled that another cancels",
		"of eight that cancel the same sessions together one cancels each, and only its events are stored",
		cancelsAllWith(func(
			ctx context.Context, m *session.Memory, all []session.BatchedCancel,
		) ([]session.Outcome, error) {
			outcomes, err := cancelAll(ctx, m, all)
			for i, outcome := range outcomes {
				if outcome == session.Changed && strings.HasPrefix(row(m, all[i].Judged.RunID).Claim, "caller ") {
					outcomes[i] = session.Done
				}
			}
			return outcomes, err
		}),
	},
}
