package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var rowRules = []rule{
	{"a row is read as it was written, its times in UTC and cut off below the microsecond",
		"a cancel compares with the row that was read, and a window is identified by its start", func(e *env) {
			start, east := noon.Add(1234*time.Microsecond), time.FixedZone("east", 5*3600+1800)
			for i, own := range []time.Duration{0, time.Microsecond, 90 * time.Minute, watchdog.NoLimit} {
				s := attach(e, row{
					RunID: fmt.Sprint(i), Parent: "päir", Threshold: own, StartedAt: start.Add(567).In(east), Host: "höst",
				})
				require(s.Parent == "päir" && s.Threshold == own && s.StartedAt.Equal(start) && s.Host == "höst",
					"attached as %+v", s)
				looksLike(e, s)
				s = look(e, s.RunID)
				for _, at := range []time.Time{s.CreatedAt, s.LastEventAt, s.StartedAt} {
					require(at.Location() == time.UTC, "a time is %v, in %v", at, at.Location())
				}
			}
		}},
	{"a run that has no row is not found",
		"a keeper must be able to distinguish a missing row from a store that fails", func(e *env) {
			_, err := e.Store.Session(e.Ctx, "unknown")
			require(errors.Is(err, session.ErrNotFound), "the error is %w, want ErrNotFound", err)
		}},
	{"an unreadable row is an error that says so and names the run, and to attach to it changes nothing",
		"an invalid time that is read as the year 1 makes a session long overdue", func(e *env) {
			const runID = "run-spoilt"
			putSilent(e, runID, time.Hour)
			spoil(e, runID)
			_, err := e.Store.Session(e.Ctx, runID)
			unreadable(err, runID)
			_, _, err = e.Store.Attach(e.Ctx, newSession(runID))
			unreadable(err, runID)
			s, err := e.Store.Session(e.Ctx, runID)
			require(err != nil || s.Attempt <= 1, "the row is %+v", s)
		}},
	{"every character of a run ID counts, and none has a special meaning",
		"two runs that share a row are cancelled together, or keep each other alive", func(e *env) {
			begin(e, homeLease)
			var fresh []freshness
			for i, runID := range oddIDs {
				fresh = append(fresh, activity(attach(e, row{RunID: runID, StartedAt: noon, Host: fmt.Sprint(i)}), 0))
			}
			freshens(e, homeLease, fresh...)
			for i, runID := range oddIDs {
				s := look(e, runID)
				require(s.RunID == runID && s.Host == fmt.Sprint(i) && s.Attempt == 1, "the row of %q is %+v", runID, s)
			}
		}},
	{"a call with a done context changes nothing and returns the context's error",
		"a keeper repeats a write that it gave up, and an empty answer looks as if nothing had stalled", func(e *env) {
			s, l := attach(e, newSession(homeRun)), begin(e, homeLease)
			start := look(e, dueStart(e, "to start").RunID)
			for name, call := range callsAbout(e.Store, s, l, start) {
				withDoneContexts(e, calls{name: call})
				contract.Part("after "+name, func() {
					stands(e, s)
					looksLike(e, start)
					leaseIs(e, l)
					noLease(e, "new")
				})
			}
		}},
}

// oddIDs are different IDs that patterns, collations or conversions may treat as equal.
var oddIDs = []string{
	"run", "RUN", "rün", " run", "run ", "run/a", "run/a/b",
	"r_n", "r%", "%", "r*", "r?n", "r[u]n", `r\_n`,
	"o'brien", `"run"`, "`run`", "run;--", `\`, `\\`, "$1", "?1", ":id", "@id", "{", "[]",
	"null", "0", "00", "0.0", "1e1", "10",
	"日本語", "🜁🜂", "é", "e\u0301", "e", "a\u200db", "\u202ea", "\ufeff", "a\u2028b", "straße", "STRASSE",
	strings.Repeat("x", watchdog.MaxAggregateID), strings.Repeat("ж", watchdog.MaxAggregateID),
}

func unreadable(err error, runID string) {
	require(errors.Is(err, session.ErrUnreadable) && strings.Contains(err.Error(), runID),
		"the error is %w, want ErrUnreadable and the run ID", err)
}

// callsAbout are the calls of a store about a session, a lease that is not the session's, and a run that is to start.
func callsAbout(store session.Store, s row, l lease, start row) calls {
	next := l
	next.Beat++
	fresh := []freshness{activity(s, 0)}
	ends := []session.Ending{{RunID: s.RunID, Attempt: s.Attempt, Status: session.Finished}}
	claim := session.ClaimRequest{By: by, For: time.Hour}
	warnings := []watchdog.Event{warning(s.RunID)}
	days := session.HistoryQuery{By: session.ByDay}
	all := calls{
		"Attach":        func(ctx context.Context) error { _, _, err := store.Attach(ctx, newSession(s.RunID)); return err },
		"Freshen":       func(ctx context.Context) error { return errorOf(store.Freshen(ctx, l.ID, fresh)) },
		"End":           func(ctx context.Context) error { return errorOf(store.End(ctx, ends)) },
		"Claim":         func(ctx context.Context) error { return errorOf(store.Claim(ctx, s, claim)) },
		"Warn":          func(ctx context.Context) error { return errorOf(store.Warn(ctx, s, warnings)) },
		"Cancel":        func(ctx context.Context) error { return errorOf(store.Cancel(ctx, s, cancelOf(s.RunID))) },
		"ClaimStart":    func(ctx context.Context) error { return errorOf(store.ClaimStart(ctx, time.Hour)) },
		"PutOffStart":   func(ctx context.Context) error { return errorOf(store.PutOffStart(ctx, start, time.Hour)) },
		"BeginLease":    func(ctx context.Context) error { return store.BeginLease(ctx, lease{ID: "new"}) },
		"RenewLease":    func(ctx context.Context) error { return store.RenewLease(ctx, next) },
		"ExpireLease":   func(ctx context.Context) error { _, _, err := store.ExpireLease(ctx, l); return err },
		"Session":       func(ctx context.Context) error { return errorOf(store.Session(ctx, s.RunID)) },
		"Stalled":       func(ctx context.Context) error { return errorOf(store.Stalled(ctx, session.Query{Limit: 1})) },
		"ObserveLeases": func(ctx context.Context) error { return errorOf(store.ObserveLeases(ctx, nil)) },
		"LeaseSessions": func(ctx context.Context) error { return errorOf(store.LeaseSessions(ctx, l.ID)) },
		"Ended":         func(ctx context.Context) error { return errorOf(store.Ended(ctx, l.ID, nil)) },
		"History":       func(ctx context.Context) error { return errorOf(store.History(ctx, days)) },
	}
	if lister, ok := store.(session.Lister); ok {
		all["List"] = func(ctx context.Context) error { return errorOf(lister.List(ctx, session.ListQuery{Limit: 1})) }
	}
	return all
}
