package sessiontest_test

import (
	"context"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// endsWith returns a store that changes the arguments of End.
func endsWith(change func(m *session.Memory, e *session.Ending)) func() session.Store {
	return with(func(a *altered) {
		a.end = func(m *session.Memory, ctx context.Context, ends []session.Ending) (session.Skipped, error) {
			var changed []session.Ending
			for _, e := range ends {
				change(m, &e)
				changed = append(changed, e)
			}
			return m.End(ctx, changed)
		}
	})
}

var brokenEnds = []broken{
	{
		"forgets the reason", "an attempt ends with the given status and reason",
		endsWith(func(_ *session.Memory, e *session.Ending) {
			if e.Status == session.Cancelled {
				e.Reason = ""
			}
		}),
	},
	{
		"drops the state of an end", "an end writes the state that it brings, and without one leaves the row's",
		endsWith(func(_ *session.Memory, e *session.Ending) {
			if strings.HasPrefix(e.RunID, "with") {
				e.State = nil
			}
		}),
	},
	{
		"does not compare the attempt of an end", "an end of another attempt than the row's changes nothing",
		endsWith(func(m *session.Memory, e *session.Ending) { e.Attempt = row(m, e.RunID).Attempt }),
	},
	{
		"overwrites an end", "a session that has ended keeps its end",
		with(func(a *altered) {
			a.end = func(m *session.Memory, ctx context.Context, ends []session.Ending) (session.Skipped, error) {
				for _, e := range ends {
					if s := row(m, e.RunID); s.Status != session.Active && s.Attempt == e.Attempt && ctx.Err() == nil {
						s.Status, s.Reason = e.Status, e.Reason
						return session.Skipped{}, m.Put(ctx, s)
					}
				}
				return m.End(ctx, ends)
			}
		}),
	},
	{
		"takes the time of an end for that of the last event",
		"the last event of a session that ended is as old as the caller says, by the clock of the store",
		endsWith(func(m *session.Memory, e *session.Ending) {
			if m.Clock().Sub(row(m, e.RunID).LastEventAt) > e.Age {
				e.Age = 0
			}
		}),
	},
	{
		"believes every host", "an end never moves the last event back",
		with(func(a *altered) {
			a.end = func(m *session.Memory, ctx context.Context, ends []session.Ending) (session.Skipped, error) {
				skipped, err := m.End(ctx, ends)
				for _, e := range ends {
					s := row(m, e.RunID)
					if at := m.Clock().Add(-e.Age); e.Age == 90*time.Minute && at.Before(s.LastEventAt) {
						s.LastEventAt = at
						err = m.Put(ctx, s)
					}
				}
				return skipped, err
			}
		}),
	},
	{
		"takes the last event of a session for its end",
		"a session that has ended says when, by the clock of the store, however old its last event is",
		looks(func(s *session.Session) { s.EndedAt = s.LastEventAt }),
	},
	{
		"keeps the lease in the row of an ended session",
		"a session that ends leaves its lease, with the time of its last activity",
		looks(func(s *session.Session) {
			if s.RunID == "cancel" && s.Status != session.Active {
				s.Lease = s.RunID
			}
		}),
	},
}
