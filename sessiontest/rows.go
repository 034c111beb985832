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
	{"a row is read as it was written",
		"a sweeper judges the row that it reads, and a cancel compares with that row", func(e *env) {
			for i, own := range []time.Duration{0, time.Microsecond, 90 * time.Minute} {
				start := noon.Add(time.Microsecond)
				s := attach(e, row{RunID: fmt.Sprint(i), Parent: "päir", Threshold: own, StartedAt: start, Host: "höst"})
				require(s.Parent == "päir" && s.Threshold == own && s.StartedAt.Equal(start) && s.Host == "höst",
					"attached as %+v", s)
				looksLike(e, s)
			}
		}},
	{"a threshold of NoLimit is read as NoLimit",
		"if a store rounds the longest duration, it becomes a limit", func(e *env) {
			s := attach(e, row{RunID: homeRun, Threshold: watchdog.NoLimit, StartedAt: noon})
			require(s.Threshold == watchdog.NoLimit, "the threshold is %v", s.Threshold)
			looksLike(e, s)
		}},
	{"times are read in UTC",
		"rows are compared and printed as they are read: in local zones one time has two texts on two hosts", func(e *env) {
			attach(e, newSession(homeRun))
			s := look(e, homeRun)
			for _, at := range []time.Time{s.CreatedAt, s.LastEventAt, s.StartedAt} {
				require(at.Location() == time.UTC, "a time is %v, in %v", at, at.Location())
			}
		}},
	{"the start of a window is the same moment in every zone, cut off below the microsecond",
		"a window is identified by its start: a start that lost digits or moved by hours is another window", func(e *env) {
			s := newSession(homeRun)
			s.StartedAt = noon.Add(1_234_567 * time.Nanosecond).In(time.FixedZone("east", 5*3600+1800))
			after, want := attach(e, s), noon.Add(1234*time.Microsecond)
			require(after.StartedAt.Equal(want), "the window starts at %v, want %v", after.StartedAt, want)
		}},
	{"a run that has no row is not found",
		"a keeper must be able to distinguish a missing row from a store that fails", func(e *env) {
			_, err := e.Store.Session(e.Ctx, "unknown")
			require(errors.Is(err, session.ErrNotFound), "the error is %w, want ErrNotFound", err)
		}},
	{"an unreadable row is an error that says so and names the run",
		"an invalid time that is read as the year 1 makes a session long overdue", func(e *env) {
			putSilent(e, "run-spoilt", time.Hour)
			spoil(e, "run-spoilt")
			_, err := e.Store.Session(e.Ctx, "run-spoilt")
			unreadable(err, "run-spoilt")
		}},
	{"to attach to an unreadable row is an error and changes nothing",
		"nobody would find out any more what the row said", func(e *env) {
			putSilent(e, "run-spoilt", time.Hour)
			spoil(e, "run-spoilt")
			_, _, err := e.Store.Attach(e.Ctx, newSession("run-spoilt"))
			unreadable(err, "run-spoilt")
			s, err := e.Store.Session(e.Ctx, "run-spoilt")
			require(err != nil || s.Attempt <= 1, "the row is %+v", s)
		}},
	{"every character of a run ID counts, and none has a special meaning",
		"two runs that share a row are cancelled together, or keep each other alive", func(e *env) {
			for i, runID := range oddIDs {
				attach(e, row{RunID: runID, StartedAt: noon, Host: fmt.Sprint(i)})
			}
			for i, runID := range oddIDs {
				s := look(e, runID)
				require(s.RunID == runID && s.Host == fmt.Sprint(i) && s.Attempt == 1, "the row of %q is %+v", runID, s)
			}
		}},
	{"a write with a done context changes nothing and returns the context's error",
		"a keeper repeats a write that it gave up: what was reported as not written must not appear later", func(e *env) {
			s, l := putSilent(e, homeRun, time.Hour), begin(e, homeLease)
			for name, write := range writesOf(e.Store, s, l) {
				withDoneContexts(e, calls{name: write})
				contract.Part("after "+name, func() {
					stands(e, s)
					leaseIs(e, l)
					noLease(e, "new")
				})
			}
		}},
	{"a read with a done context returns the context's error",
		"an empty answer would look as if nothing had stalled", func(e *env) {
			attach(e, newSession(homeRun))
			withDoneContexts(e, readsOf(e.Store))
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

// writesOf are the writes of a store about a session, and a lease that is not the session's.
func writesOf(store session.Store, s row, l lease) calls {
	next := l
	next.Beat++
	fresh := []freshness{activity(s, 0)}
	ends := []session.Ending{{RunID: s.RunID, Attempt: s.Attempt, Status: session.Finished}}
	claim := session.ClaimRequest{By: by, For: time.Hour}
	warnings := []watchdog.Event{warning(s.RunID)}
	return calls{
		"Attach":      func(ctx context.Context) error { _, _, err := store.Attach(ctx, newSession(s.RunID)); return err },
		"Freshen":     func(ctx context.Context) error { return errorOf(store.Freshen(ctx, l.ID, fresh)) },
		"End":         func(ctx context.Context) error { return errorOf(store.End(ctx, ends)) },
		"Claim":       func(ctx context.Context) error { return errorOf(store.Claim(ctx, s, claim)) },
		"Warn":        func(ctx context.Context) error { return errorOf(store.Warn(ctx, s, warnings)) },
		"Cancel":      func(ctx context.Context) error { return errorOf(store.Cancel(ctx, s, cancelOf(s.RunID))) },
		"BeginLease":  func(ctx context.Context) error { return store.BeginLease(ctx, lease{ID: "new"}) },
		"RenewLease":  func(ctx context.Context) error { return store.RenewLease(ctx, next) },
		"ExpireLease": func(ctx context.Context) error { _, _, err := store.ExpireLease(ctx, l); return err },
	}
}

func readsOf(store session.Store) calls {
	return calls{
		"Session":       func(ctx context.Context) error { return errorOf(store.Session(ctx, homeRun)) },
		"Stalled":       func(ctx context.Context) error { return errorOf(store.Stalled(ctx, session.Query{Limit: 1})) },
		"ObserveLeases": func(ctx context.Context) error { return errorOf(store.ObserveLeases(ctx, nil)) },
		"LeaseSessions": func(ctx context.Context) error { return errorOf(store.LeaseSessions(ctx, homeLease)) },
		"Ended":         func(ctx context.Context) error { return errorOf(store.Ended(ctx, homeLease, nil)) },
		"History": func(ctx context.Context) error {
			return errorOf(store.History(ctx, session.HistoryQuery{By: session.ByDay}))
		},
	}
}
