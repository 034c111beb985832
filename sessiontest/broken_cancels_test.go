package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

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
		) (bool, error) {
			change(m, &judged, &c)
			return m.Cancel(ctx, judged, c)
		}
	})
}

// claims returns a store whose Cancel returns true for some sessions that it did not cancel.
func claims(which func(m *session.Memory, judged session.Session) bool) func() session.Store {
	return with(func(a *altered) {
		a.cancel = func(
			m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
		) (bool, error) {
			claimed := which(m, judged)
			done, err := m.Cancel(ctx, judged, c)
			return done || err == nil && claimed, err
		}
	})
}

var brokenCancels = []broken{
	{
		"forgets how often a run was resumed", "a session that has not changed is cancelled, with its reason and its resumes",
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
			) (bool, error) {
				done, err := m.Cancel(ctx, judged, c)
				if errors.Is(err, watchdog.ErrInvalid) {
					judged.Status = session.Cancelled
					err = errors.Join(err, m.Put(ctx, judged))
				}
				return done, err
			}
		}),
	},
	{
		"refuses an event that is already stored", "a cancel succeeds if its event is already stored",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (bool, error) {
				for _, e := range c.Events {
					stored, _ := m.Read(ctx, e.AggregateType, e.AggregateID)
					known := slices.ContainsFunc(stored, func(s watchdog.Event) bool { return s.ID == e.ID })
					if known && row(m, judged.RunID).Status == session.Active {
						return false, errors.New("UNIQUE constraint failed")
					}
				}
				return m.Cancel(ctx, judged, c)
			}
		}),
	},
	{
		"finds NULL different from NULL", "a session without events is cancelled like others",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (bool, error) {
				if judged.LastEventAt.IsZero() {
					return false, ctx.Err()
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
			) (bool, error) {
				if s := row(m, judged.RunID); s.Status == session.Finished {
					s.Status = session.Active
					_ = m.Put(ctx, s)
				}
				return m.Cancel(ctx, judged, c)
			}
		}),
	},
	{
		"returns true for a run that it does not know", "a run without a row is not cancelled, and nothing is written",
		claims(func(m *session.Memory, judged session.Session) bool { return row(m, judged.RunID).Attempt == 0 }),
	},
	{
		"returns true for a repeated cancel", "of two cancels of one session the first counts",
		func() session.Store {
			var under atomic.Int32
			return with(func(a *altered) {
				a.cancel = func(
					m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
				) (bool, error) {
					done, err := m.Cancel(ctx, judged, c)
					again := under.Add(1) > 1 && c.Reason == "another"
					return done || again, err
				}
			})()
		},
	},
	{
		"stores the events of a cancel that came too late",
		"of eight cancels at once one counts, and only its events are stored",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (bool, error) {
				done, err := m.Cancel(ctx, judged, c)
				if !done && err == nil && strings.HasPrefix(c.Events[0].ID, "of caller") {
					err = m.Append(ctx, c.Events...)
				}
				return done, err
			}
		}),
	},
}
