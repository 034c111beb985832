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

// afterClaims returns a store that changes the outcome of a claim on the row that there was.
func afterClaims(
	change func(m *session.Memory, before session.Session, c session.ClaimRequest, o session.Outcome) session.Outcome,
) func() session.Store {
	return with(func(a *altered) {
		a.claim = func(
			m *session.Memory, ctx context.Context, judged session.Session, c session.ClaimRequest,
		) (session.Outcome, error) {
			before := row(m, judged.RunID)
			outcome, err := m.Claim(ctx, judged, c)
			if err == nil {
				outcome = change(m, before, c, outcome)
			}
			return outcome, err
		}
	})
}

var brokenClaims = []broken{
	{
		"takes a claim for a sign of life", "a claimed session names the pass, and is as it was otherwise",
		afterClaims(func(
			m *session.Memory, before session.Session, c session.ClaimRequest, o session.Outcome,
		) session.Outcome {
			if o == session.Done && before.Lease != "" && before.WarnedAt.IsZero() {
				before.Claim, before.Activity = c.By, before.Activity+1
				_ = m.Put(context.Background(), before)
			}
			return o
		}),
	},
	{
		"lets a caller without a name cancel what is claimed",
		"while a claim lasts, nobody else claims, warns or cancels",
		cancelsWith(func(m *session.Memory, judged *session.Session, c *session.CancelRequest) {
			if c.By == "" {
				c.By = row(m, judged.RunID).Claim
			}
		}),
	},
	{
		"refuses a pass its own claim", "the pass that claimed a session can claim it again, and cancel it",
		afterClaims(func(
			_ *session.Memory, before session.Session, c session.ClaimRequest, o session.Outcome,
		) session.Outcome {
			if before.Claim == c.By && c.For == time.Hour && before.Lease == "" && o == session.Done {
				return session.Taken
			}
			return o
		}),
	},
	{
		"keeps a claim for ever", "a claim that is over does not count",
		afterClaims(func(
			_ *session.Memory, before session.Session, c session.ClaimRequest, o session.Outcome,
		) session.Outcome {
			if before.Claim != "" && before.Claim != c.By && o == session.Done {
				return session.Taken
			}
			return o
		}),
	},
	{
		"keeps the end of the first claim", "a claim lasts as long as its pass said last",
		claimsWith(func(m *session.Memory, judged *session.Session, c *session.ClaimRequest) {
			if row(m, judged.RunID).Claim == c.By && c.For == 0 {
				c.For = time.Hour
			}
		}),
	},
	{
		"claims without a lock", "of eight claims at once one counts",
		afterClaims(func(
			_ *session.Memory, before session.Session, _ session.ClaimRequest, o session.Outcome,
		) session.Outcome {
			if o == session.Taken && strings.HasPrefix(before.RunID, "race-") {
				return session.Done
			}
			return o
		}),
	},
}

// stillWarned returns a store whose rows say that a session was warned though that is void.
func stillWarned(which func(s session.Session) bool) func() session.Store {
	return with(func(a *altered) {
		a.session = func(m *session.Memory, ctx context.Context, runID string) (session.Session, error) {
			s, err := m.Session(ctx, runID)
			events, _ := m.Read(ctx, watchdog.AggregateType, runID)
			warned := slices.ContainsFunc(events, func(e watchdog.Event) bool { return e.Type == watchdog.EventWarning })
			if err == nil && warned && s.WarnedAt.IsZero() && s.Attempt == 1 && s.Status == session.Active && which(s) {
				s.WarnedAt = m.Clock()
			}
			return s, err
		}
	})
}

var brokenWarnings = []broken{
	{
		"notes a warning without its events", "a warning is noted with its events, and the time",
		warnsWith(func(_ *session.Memory, judged *session.Session, events *[]watchdog.Event) {
			if judged.Lease != "" && len(*events) == 1 {
				*events = nil
			}
		}),
	},
	{
		"stores the events of a warning one by one", "a warning with an invalid event is an error and changes nothing",
		with(func(a *altered) {
			a.warn = func(
				m *session.Memory, ctx context.Context, judged session.Session, events []watchdog.Event,
			) (session.Outcome, error) {
				outcome, err := m.Warn(ctx, judged, events)
				if errors.Is(err, watchdog.ErrInvalid) {
					err = errors.Join(err, m.Append(ctx, events[0]))
				}
				return outcome, err
			}
		}),
	},
	{
		"keeps a warning beside an activity", "a warning is void after an activity",
		stillWarned(func(s session.Session) bool { return s.Lease == "lease-1" && s.Activity == 1 }),
	},
	{
		"keeps a warning in another lease", "a warning is void after another lease",
		stillWarned(func(s session.Session) bool { return s.Lease == "lease-2" }),
	},
	{
		"keeps a warning of a dead process", "a warning is void after the death of its process",
		stillWarned(func(s session.Session) bool { return s.Lease == "" }),
	},
	{
		"takes back a warning with each write of the row", "a warning stands until the session gives a sign of life",
		looks(func(s *session.Session) {
			if strings.Contains(string(s.State), "warned\":1") {
				s.WarnedAt = time.Time{}
			}
		}),
	},
	{
		"takes a warning for a sign of life", "a session that was warned is claimed and cancelled like others",
		claimsWith(func(m *session.Memory, judged *session.Session, _ *session.ClaimRequest) {
			if s := row(m, judged.RunID); s.Activity == 0 && !s.WarnedAt.Equal(judged.WarnedAt) {
				judged.Attempt = 0
			}
		}),
	},
}

var brokenStoredEnds = []broken{
	{
		"appends the other events beside a stored end",
		"a cancel whose event is stored already writes down what that says, and nothing else",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				outcome, err := m.Cancel(ctx, judged, c)
				if outcome == session.EndStored && err == nil {
					err = m.Append(ctx, c.Events...)
				}
				return outcome, err
			}
		}),
	},
	{
		"does not look for an end when it claims",
		"a claim on a session whose end is stored already writes down what that says",
		claimsWith(func(_ *session.Memory, judged *session.Session, c *session.ClaimRequest) {
			if strings.HasPrefix(judged.RunID, "claimed-") {
				c.EndID = ""
			}
		}),
	},
	{
		"forgets how the command of a stored end ended",
		"a stored end that says how the run's command ended is in the row's state, with what that said",
		looks(func(s *session.Session) {
			if s.RunID == "failed by cancel" && s.Failed() {
				s.State = []byte(`{"phase":"tests","later":[1]}`)
			}
		}),
	},
	{
		"forgets the claim beside a stored end",
		"a stored end that appears after the claim is written down by the cancel, with the claim",
		with(func(a *altered) {
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				outcome, err := m.Cancel(ctx, judged, c)
				if s := row(m, judged.RunID); outcome == session.EndStored && s.Claim != "" {
					s.Claim = ""
					err = m.Put(ctx, s)
				}
				return outcome, err
			}
		}),
	},
	{
		"takes any end of the run for that of its window", "the end of another window is none of this one",
		claimsWith(func(m *session.Memory, judged *session.Session, c *session.ClaimRequest) {
			events, _ := m.Read(context.Background(), watchdog.AggregateType, judged.RunID)
			for _, e := range events {
				if e.Type == watchdog.EventCancel {
					c.EndID = e.ID
				}
			}
		}),
	},
	{
		"does not count an end that it found stored", "a lease is told of a stored end that is written down",
		tellsBut(without("claimed")),
	},
	{
		"notifies of its own cancels only", "a listener is notified of a stored end that is written down",
		with(func(a *altered) {
			a.listen = func(m *session.Memory, ctx context.Context, ready func(), told func(string)) error {
				return m.Listen(ctx, ready, func(runID string) {
					if row(m, runID).Claim == "" && runID == "run-1" {
						runID = "another"
					}
					told(runID)
				})
			}
		}),
	},
}
