package sessiontest_test

import (
	"context"
	"errors"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// cancelsWith returns a store that changes the arguments of Cancel.
func cancelsWith(
	change func(m *session.Memory, judged *session.Session, c *session.CancelRequest),
) func() session.Store {
	return with(func(a *altered) {
		a.cancel = func(
			m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
		) (session.Outcome, error) {
			change(m, &judged, &c)
			return m.Cancel(ctx, judged, c)
		}
	})
}

// boasts returns a store whose Cancel returns Done for some sessions that it did not cancel.
func boasts(which func(m *session.Memory, judged session.Session) bool) func() session.Store {
	return with(func(a *altered) {
		a.cancel = func(
			m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
		) (session.Outcome, error) {
			boasted := which(m, judged)
			outcome, err := m.Cancel(ctx, judged, c)
			if err == nil && boasted {
				outcome = session.Done
			}
			return outcome, err
		}
	})
}

var brokenCancels = []broken{
	{
		"forgets how often a run was resumed", "a session that has not changed is cancelled, as requested",
		cancelsWith(func(_ *session.Memory, _ *session.Session, c *session.CancelRequest) {
			if c.Resumes == 3 {
				c.Resumes = 0
			}
		}),
	},
	{
		"stores the last event only", "the events of a cancel are stored with it",
		cancelsWith(func(_ *session.Memory, _ *session.Session, c *session.CancelRequest) {
			if len(c.Events) == 2 && c.Events[1].ID == "terminal" {
				c.Events = c.Events[1:]
			}
		}),
	},
	{
		"changes the row before it validates the events", "a cancel with an invalid event is an error and changes nothing",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				outcome, err := m.Cancel(ctx, judged, c)
				if errors.Is(err, watchdog.ErrInvalid) {
					judged.Status = session.Cancelled
					err = errors.Join(err, m.Put(ctx, judged))
				}
				return outcome, err
			}
		}),
	},
	{
		"cancels without an event", "a cancel without an event is an error and changes nothing",
		cancelsWith(func(_ *session.Memory, judged *session.Session, c *session.CancelRequest) {
			if len(c.Events) == 0 {
				c.Events = append(c.Events, watchdog.Event{
					ID: "made up", AggregateType: watchdog.AggregateType, AggregateID: judged.RunID,
					Type: watchdog.EventCancel, Payload: []byte(`{}`), Timestamp: judged.CreatedAt,
				})
			}
		}),
	},
	{
		"finds NULL different from NULL", "a session without events is cancelled like others",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				if judged.LastEventAt.IsZero() {
					return session.Changed, ctx.Err()
				}
				return m.Cancel(ctx, judged, c)
			}
		}),
	},
	{
		"does not compare the last event", "a session that woke up is not cancelled, and nothing is written",
		cancelsWith(func(m *session.Memory, judged *session.Session, _ *session.CancelRequest) {
			if !judged.LastEventAt.IsZero() {
				judged.LastEventAt = row(m, judged.RunID).LastEventAt
			}
		}),
	},
	{
		"takes NULL for any last event",
		"a session that had its first event meanwhile is not cancelled, and nothing is written",
		cancelsWith(func(m *session.Memory, judged *session.Session, _ *session.CancelRequest) {
			if judged.LastEventAt.IsZero() {
				judged.LastEventAt = row(m, judged.RunID).LastEventAt
			}
		}),
	},
	{
		"does not compare the attempt of a cancel", "a session in another attempt is not cancelled, and nothing is written",
		cancelsWith(func(m *session.Memory, judged *session.Session, _ *session.CancelRequest) {
			if judged.RunID == "run-1" {
				judged.Attempt = row(m, judged.RunID).Attempt
			}
		}),
	},
	{
		"cancels what has finished", "a session that has ended is not cancelled, and nothing is written",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				if s := row(m, judged.RunID); s.Status == session.Finished && judged.Lease == "" {
					s.Status = session.Active
					_ = m.Put(ctx, s)
				}
				return m.Cancel(ctx, judged, c)
			}
		}),
	},
	{
		"returns Done for a run that it does not know", "a run without a row is not cancelled, and nothing is written",
		boasts(func(m *session.Memory, judged session.Session) bool { return row(m, judged.RunID).Attempt == 0 }),
	},
	{
		"returns Done for a repeated cancel", "of two cancels of one session the first counts",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				outcome, err := m.Cancel(ctx, judged, c)
				if outcome == session.Changed && c.Reason == "another" {
					outcome = session.Done
				}
				return outcome, err
			}
		}),
	},
}

var brokenRaces = []broken{
	{
		"stores the events of a cancel that came too late",
		"of eight cancels at once one counts, and only its events are stored",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				outcome, err := m.Cancel(ctx, judged, c)
				if outcome == session.Changed && strings.HasPrefix(c.Events[0].ID, "of caller") {
					err = m.Append(ctx, c.Events...)
				}
				return outcome, err
			}
		}),
	},
	{
		"takes the stored event of another for its own",
		"of eight cancels at once with one event one counts, and the row is as it requested",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				outcome, err := m.Cancel(ctx, judged, c)
				if outcome == session.Changed && strings.HasPrefix(c.By, "caller") {
					outcome = session.Done
				}
				return outcome, err
			}
		}),
	},
	{
		"looks for a stored end before it locks the row",
		"if a run ends while it is cancelled, its event and its row say the same",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				outcome, err := m.Cancel(ctx, judged, c)
				if outcome == session.EndStored && strings.HasPrefix(judged.RunID, "race-") {
					s := row(m, judged.RunID)
					s.Status, s.Reason = session.Cancelled, c.Reason
					err = m.Put(ctx, s)
				}
				return outcome, err
			}
		}),
	},
}
