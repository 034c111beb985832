package sessiontest

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var contextRules = []rule{
	{"a write with a done context changes nothing and returns the context's error",
		"a keeper repeats a write that it gave up: what was reported as not written must not appear later",
		func(e *env) {
			s, l := putSilent(e, homeRun, time.Hour), begin(e, homeLease)
			for name, write := range writesOf(e.Store, s, l) {
				withDoneContexts(e, name, write)
				contract.Part("after "+name, func() {
					stands(e, s)
					leaseIs(e, l)
					noLease(e, "new")
				})
			}
		}},
	{"a read with a done context returns the context's error",
		"an empty answer would look as if nothing had stalled",
		func(e *env) {
			attach(e, newSession(homeRun))
			for name, read := range readsOf(e.Store) {
				withDoneContexts(e, name, read)
			}
		}},
}

// writesOf are the writes of a store about a session, and a lease that is not the session's.
func writesOf(store session.Store, s session.Session, l session.Lease) map[string]func(context.Context) error {
	next := l
	next.Beat++
	fresh := []session.Freshness{activity(s, 0)}
	ends := []session.Ending{{RunID: s.RunID, Attempt: s.Attempt, Status: session.Finished}}
	claim := session.ClaimRequest{By: by, For: time.Hour}
	warnings := []watchdog.Event{warning(s.RunID)}
	return map[string]func(context.Context) error{
		"Attach":      func(ctx context.Context) error { _, _, err := store.Attach(ctx, newSession(s.RunID)); return err },
		"Freshen":     func(ctx context.Context) error { return errorOf(store.Freshen(ctx, l.ID, fresh)) },
		"End":         func(ctx context.Context) error { return errorOf(store.End(ctx, ends)) },
		"Claim":       func(ctx context.Context) error { return errorOf(store.Claim(ctx, s, claim)) },
		"Warn":        func(ctx context.Context) error { return errorOf(store.Warn(ctx, s, warnings)) },
		"Cancel":      func(ctx context.Context) error { return errorOf(store.Cancel(ctx, s, cancelOf(s.RunID))) },
		"BeginLease":  func(ctx context.Context) error { return store.BeginLease(ctx, session.Lease{ID: "new"}) },
		"RenewLease":  func(ctx context.Context) error { return store.RenewLease(ctx, next) },
		"ExpireLease": func(ctx context.Context) error { _, _, err := store.ExpireLease(ctx, l); return err },
	}
}

func readsOf(store session.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
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
