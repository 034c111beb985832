package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var contextRules = []rule{
	{
		"a write with a done context changes nothing and returns the context's error",
		"a keeper repeats a write that it gave up: what was reported as not written must not appear later",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			l, err := begin(ctx, store, homeLease)
			if err != nil {
				return err
			}
			next := l
			next.Beat++
			for name, write := range map[string]func(context.Context) error{
				"Attach": func(ctx context.Context) error { _, _, err := store.Attach(ctx, newSession(homeRun)); return err },
				"Freshen": func(ctx context.Context) error {
					_, err := store.Freshen(ctx, homeLease, []session.Freshness{{RunID: homeRun, Attempt: 1}})
					return err
				},
				"End": func(ctx context.Context) error {
					_, err := store.End(ctx, []session.Ending{{RunID: homeRun, Attempt: 1, Status: session.Finished}})
					return err
				},
				"Claim": func(ctx context.Context) error {
					_, err := store.Claim(ctx, s, session.ClaimRequest{By: by, For: time.Hour})
					return err
				},
				"Warn": func(ctx context.Context) error {
					_, err := store.Warn(ctx, s, []watchdog.Event{warning(homeRun)})
					return err
				},
				"Cancel":     func(ctx context.Context) error { _, err := store.Cancel(ctx, s, cancelOf(homeRun)); return err },
				"BeginLease": func(ctx context.Context) error { return store.BeginLease(ctx, session.Lease{ID: "new"}) },
				"RenewLease": func(ctx context.Context) error { return store.RenewLease(ctx, next) },
				"ExpireLease": func(ctx context.Context) error {
					_, _, err := store.ExpireLease(ctx, l)
					return err
				},
			} {
				err := errors.Join(withDoneContexts(ctx, name, write), looksLike(ctx, store, s),
					recorded(ctx, store, homeRun), leaseIs(ctx, store, l), noLease(ctx, store, "new"))
				if err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"a read with a done context returns the context's error",
		"an empty answer would look as if nothing had stalled",
		func(ctx context.Context, store session.Store) error {
			if _, err := attach(ctx, store, newSession(homeRun)); err != nil {
				return err
			}
			return errors.Join(
				withDoneContexts(ctx, "Session", func(ctx context.Context) error {
					_, err := store.Session(ctx, homeRun)
					return err
				}),
				withDoneContexts(ctx, "Stalled", func(ctx context.Context) error {
					_, err := store.Stalled(ctx, session.Query{Limit: 1})
					return err
				}),
				withDoneContexts(ctx, "ObserveLeases", func(ctx context.Context) error {
					_, err := store.ObserveLeases(ctx, nil)
					return err
				}),
				withDoneContexts(ctx, "LeaseSessions", func(ctx context.Context) error {
					_, err := store.LeaseSessions(ctx, homeLease)
					return err
				}),
				withDoneContexts(ctx, "Ended", func(ctx context.Context) error {
					_, err := store.Ended(ctx, homeLease, nil)
					return err
				}),
				withDoneContexts(ctx, "History", func(ctx context.Context) error {
					_, err := store.History(ctx, session.HistoryQuery{By: session.ByDay})
					return err
				}),
			)
		},
	},
}

// withDoneContexts checks that a call returns the error of its context.
func withDoneContexts(ctx context.Context, name string, call func(context.Context) error) error {
	return contract.WithDoneContexts(ctx, func(done context.Context) error {
		if err := call(done); !errors.Is(err, done.Err()) {
			return fmt.Errorf("%s returned %w, want an error that wraps %w", name, err, done.Err())
		}
		return nil
	})
}
