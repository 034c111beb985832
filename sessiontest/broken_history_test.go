package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// counted returns a store that changes the argument of History.
func counted(change func(h *session.HistoryQuery)) func() session.Store {
	return with(func(a *altered) {
		a.history = func(m *session.Memory, ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
			change(&h)
			return m.History(ctx, h)
		}
	})
}

// counts returns a store that changes the result of History.
func counts(
	change func(h session.HistoryQuery, counts []session.CancelCount) []session.CancelCount,
) func() session.Store {
	return with(func(a *altered) {
		a.history = func(m *session.Memory, ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
			counts, err := m.History(ctx, h)
			return change(h, counts), err
		}
	})
}

var brokenHistories = []broken{
	{
		"looks for a reason anywhere in the payload", "cancels are counted by their reasons",
		counts(func(h session.HistoryQuery, counts []session.CancelCount) []session.CancelCount {
			if h.By == session.ByReason && len(counts) == 2 && counts[0].Key == "hold_exceeded" {
				counts[0].Key = "reason"
			}
			return counts
		}),
	},
	{
		"counts days of its own zone", "cancels are counted by days of UTC",
		counts(func(h session.HistoryQuery, counts []session.CancelCount) []session.CancelCount {
			if h.By == session.ByDay && len(counts) == 2 {
				counts[0].Count, counts[1].Count = counts[0].Count+1, counts[1].Count-1
			}
			return counts
		}),
	},
	{
		"joins the rows, and loses the events without one",
		"cancels are counted by the hosts of their sessions, and under an empty host if there is no session",
		counts(func(h session.HistoryQuery, counts []session.CancelCount) []session.CancelCount {
			if h.By == session.ByHost {
				counts = slices.DeleteFunc(counts, func(c session.CancelCount) bool { return c.Key == "" })
			}
			return counts
		}),
	},
	{
		"includes the end of a period", "a period of time includes its start and not its end",
		counted(func(h *session.HistoryQuery) { h.To = h.To.Add(time.Microsecond) }),
	},
	{
		"counts every kind of event", "only cancels are counted",
		with(func(a *altered) {
			a.history = func(m *session.Memory, ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
				counts, err := m.History(ctx, h)
				events, _ := m.Read(ctx, watchdog.AggregateType, "run-1")
				for i := range events {
					if i < len(counts) && events[i].Type != watchdog.EventCancel {
						counts[i].Count++
					}
				}
				return counts, err
			}
		}),
	},
	{
		"takes no rows for an error", "a period without cancels has no counts, and no error",
		with(func(a *altered) {
			a.history = func(m *session.Memory, ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
				counts, err := m.History(ctx, h)
				if len(counts) == 0 && err == nil {
					err = errors.New("sql: no rows in result set")
				}
				return counts, err
			}
		}),
	},
}

var brokenListens = []broken{
	{
		"notifies of one cancel at most", "a listener is notified of each cancel",
		with(func(a *altered) {
			a.listen = func(m *session.Memory, ctx context.Context, ready func(), told func(string)) error {
				n := 0
				return m.Listen(ctx, ready, func(runID string) {
					if n++; n > 1 {
						runID = "another"
					}
					told(runID)
				})
			}
		}),
	},
	{
		"notifies of each attempt to cancel", "a listener is not notified of a cancel that changed nothing",
		with(func(a *altered) {
			a.listen = func(m *session.Memory, ctx context.Context, ready func(), told func(string)) error {
				return m.Listen(ctx, ready, func(runID string) {
					if runID == "stalled" {
						told("awake")
					}
					told(runID)
				})
			}
		}),
	},
	{
		"returns an error when its context ends", "listening ends with its context",
		func() session.Store {
			told := false
			return with(func(a *altered) {
				a.listen = func(m *session.Memory, ctx context.Context, ready func(), tell func(string)) error {
					err := m.Listen(ctx, ready, func(runID string) { told = true; tell(runID) })
					if !told {
						err = errors.New("the connection was closed")
					}
					return err
				}
			})()
		},
	},
}

var brokenContexts = []broken{
	{
		"ignores the context of an end", "a write with a done context changes nothing and returns the context's error",
		with(func(a *altered) {
			a.end = func(m *session.Memory, ctx context.Context, ends []session.Ending) (session.Skipped, error) {
				return m.End(context.WithoutCancel(ctx), ends)
			}
		}),
	},
	{
		"ignores the context of a read", "a read with a done context returns the context's error",
		with(func(a *altered) {
			a.history = func(m *session.Memory, ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
				return m.History(context.WithoutCancel(ctx), h)
			}
		}),
	},
}
