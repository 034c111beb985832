package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

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

// since returns a store that changes the result of Ended for a mark.
func since(change func(m *session.Memory, mark string, runIDs []string) []string) func() session.Store {
	return with(func(a *altered) {
		a.ended = func(m *session.Memory, ctx context.Context, mark string) ([]string, string, error) {
			runIDs, next, err := m.Ended(ctx, mark)
			if mark != "" {
				runIDs = change(m, mark, runIDs)
			}
			return runIDs, next, err
		}
	})
}

var brokenEnded = []broken{
	{
		"takes an empty mark for the first one", "an empty mark is now: no run is returned",
		with(func(a *altered) {
			a.ended = func(m *session.Memory, ctx context.Context, mark string) ([]string, string, error) {
				if mark != "" {
					return m.Ended(ctx, mark)
				}
				return m.Ended(ctx, "0")
			}
		}),
	},
	{
		"returns cancels only", "what ended since a mark is returned, however it ended",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			return slices.DeleteFunc(runIDs, func(runID string) bool { return row(m, runID).Status == session.Interrupted })
		}),
	},
	{
		"does not count a sweeper's cancels", "what was cancelled since a mark is returned",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			return slices.DeleteFunc(runIDs, func(runID string) bool { return row(m, runID).Reason != "" })
		}),
	},
	{
		"returns whatever was written", "what has not ended is not returned",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			if row(m, "live").Attempt > 0 {
				runIDs = append(runIDs, "live")
			}
			return runIDs
		}),
	},
	{
		"moves its mark one too far", "each mark continues where the one before ended",
		func() session.Store {
			asked := 0
			return with(func(a *altered) {
				a.ended = func(m *session.Memory, ctx context.Context, mark string) ([]string, string, error) {
					runIDs, next, err := m.Ended(ctx, mark)
					if asked++; asked > 2 {
						runIDs = nil
					}
					return runIDs, next, err
				}
			})()
		},
	},
	{
		"forgets the end of a run that is attached again",
		"a mark stays valid when the run that ended last is attached again",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			if row(m, "first").Status == session.Active {
				return nil
			}
			return runIDs
		}),
	},
	{
		"returns a run once", "a run that ends again is returned again",
		since(func(m *session.Memory, _ string, runIDs []string) []string {
			return slices.DeleteFunc(runIDs, func(runID string) bool { return row(m, runID).Attempt > 1 })
		}),
	},
}

// counted returns a store that changes the argument of History.
func counted(change func(h *session.History)) func() session.Store {
	return with(func(a *altered) {
		a.history = func(m *session.Memory, ctx context.Context, h session.History) ([]session.Count, error) {
			change(&h)
			return m.History(ctx, h)
		}
	})
}

// counts returns a store that changes the result of History.
func counts(change func(h session.History, counts []session.Count) []session.Count) func() session.Store {
	return with(func(a *altered) {
		a.history = func(m *session.Memory, ctx context.Context, h session.History) ([]session.Count, error) {
			counts, err := m.History(ctx, h)
			return change(h, counts), err
		}
	})
}

var brokenHistories = []broken{
	{
		"looks for a reason anywhere in the payload", "cancels are counted by their reasons",
		counts(func(h session.History, counts []session.Count) []session.Count {
			if h.By == session.ByReason && len(counts) == 2 && counts[0].Key == "hold_exceeded" {
				counts[0].Key = "reason"
			}
			return counts
		}),
	},
	{
		"counts days of its own zone", "cancels are counted by days of UTC",
		counts(func(h session.History, counts []session.Count) []session.Count {
			if h.By == session.ByDay && len(counts) == 2 {
				counts[0].Count, counts[1].Count = counts[0].Count+1, counts[1].Count-1
			}
			return counts
		}),
	},
	{
		"joins the rows, and loses the events without one",
		"cancels are counted by the hosts of their sessions, and under an empty host if there is no session",
		counts(func(h session.History, counts []session.Count) []session.Count {
			if h.By == session.ByHost {
				counts = slices.DeleteFunc(counts, func(c session.Count) bool { return c.Key == "" })
			}
			return counts
		}),
	},
	{
		"includes the end of a period", "a period of time includes its start and not its end",
		counted(func(h *session.History) { h.To = h.To.Add(time.Microsecond) }),
	},
	{
		"counts every kind of event", "only cancels are counted",
		with(func(a *altered) {
			a.history = func(m *session.Memory, ctx context.Context, h session.History) ([]session.Count, error) {
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
			a.history = func(m *session.Memory, ctx context.Context, h session.History) ([]session.Count, error) {
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
			a.end = func(m *session.Memory, ctx context.Context, ends []session.Ending) error {
				return m.End(context.WithoutCancel(ctx), ends)
			}
		}),
	},
	{
		"ignores the context of a read", "a read with a done context returns the context's error",
		with(func(a *altered) {
			a.history = func(m *session.Memory, ctx context.Context, h session.History) ([]session.Count, error) {
				return m.History(context.WithoutCancel(ctx), h)
			}
		}),
	},
}
