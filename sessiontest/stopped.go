package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var stoppedRules = []rule{
	{
		"a claim can note that the agents were stopped, and whether that failed",
		"the sweeper that called the stop hook could not cancel the session, and another one must not call it again",
		func(ctx context.Context, store session.Store) error {
			for _, failed := range []bool{false, true} {
				s, err := putSilent(ctx, store, fmt.Sprint("failed-", failed), time.Hour)
				if err != nil {
					return err
				}
				if s, err = stops(ctx, store, s, failed); err != nil {
					return err
				}
				if !s.Stopped || s.StopFailed != failed {
					return fmt.Errorf("after a stop that failed (%v) the row is %+v", failed, s)
				}
				if err := errors.Join(claimsFor(ctx, store, s, by, 0, session.Done), looksLike(ctx, store, s)); err != nil {
					return fmt.Errorf("after another claim: %w", err)
				}
			}
			return nil
		},
	},
	{
		"a session that was judged before its agents were stopped cannot be claimed, and can be cancelled",
		"two sweepers have judged the session, and the second one claims it when the first has given up",
		func(ctx context.Context, store session.Store) error {
			before, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			after, err := stops(ctx, store, before, true)
			if err != nil {
				return err
			}
			c := cancelOf(homeRun)
			c.StopFailed = true
			return errors.Join(
				claims(ctx, store, before, "pass-2", session.Changed), claims(ctx, store, before, by, session.Changed),
				looksLike(ctx, store, after), claimsFor(ctx, store, after, by, 0, session.Done),
				cancelsAs(ctx, store, before, c, session.Done))
		},
	},
	{
		"after the end of a session no row says that its agents were stopped",
		"only of one that was cancelled it is to be seen that they could not be",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			if s, err = stops(ctx, store, s, true); err != nil {
				return err
			}
			if err := end(ctx, store, session.Ending{
				RunID: s.RunID, Attempt: s.Attempt, Status: session.Finished,
			}); err != nil {
				return err
			}
			got, err := look(ctx, store, s.RunID)
			if err == nil && (got.Stopped || got.StopFailed) {
				err = fmt.Errorf("the row is %+v", got)
			}
			return err
		},
	},
	{
		"a warning and a stop are noted beside each other, each until the session gives a sign of life",
		"a grace and a stop hook can be set together",
		func(ctx context.Context, store session.Store) error {
			return warned(ctx, store, func(l session.Lease, s session.Session) error {
				stopped, err := stops(ctx, store, s, false)
				if err != nil {
					return err
				}
				if stopped.WarnedAt.IsZero() {
					return fmt.Errorf("after the stop the row is %+v", stopped)
				}
				sign := session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Activity: s.Activity + time.Second, Quiet: true}
				if err := freshens(ctx, store, l.ID, sign); err != nil {
					return err
				}
				if s, err = look(ctx, store, s.RunID); err != nil {
					return err
				}
				if err := warns(ctx, store, s, session.Done); err != nil {
					return err
				}
				got, err := look(ctx, store, s.RunID)
				if err == nil && (got.WarnedAt.IsZero() || got.Stopped) {
					err = fmt.Errorf("after another warning the row is %+v", got)
				}
				return err
			})
		},
	},
	voidStopRule("an activity", func(ctx context.Context, store session.Store, l session.Lease, s session.Session) error {
		return freshens(ctx, store, l.ID,
			session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Activity: s.Activity + time.Second, Quiet: true})
	}),
	voidStopRule("an attach", func(ctx context.Context, store session.Store, l session.Lease, s session.Session) error {
		_, err := attach(ctx, store, underLease(newSession(s.RunID), l.ID))
		return err
	}),
}

// stops notes that the agents of a session were stopped, and returns its row.
func stops(ctx context.Context, store session.Store, s session.Session, failed bool) (session.Session, error) {
	request := session.ClaimRequest{By: by, EndID: "cancel of " + s.RunID, Stopped: true, StopFailed: failed}
	outcome, err := store.Claim(ctx, s, request)
	if err := came("claim", s.RunID, outcome, session.Done, err); err != nil {
		return session.Session{}, err
	}
	return look(ctx, store, s.RunID)
}

// voidStopRule is the rule that a sign of life makes the note of a stop void.
func voidStopRule(
	sign string, give func(context.Context, session.Store, session.Lease, session.Session) error,
) rule {
	return rule{"the note that agents were stopped is void after " + sign, "those of its next silence would run on",
		func(ctx context.Context, store session.Store) error {
			l, s, err := vouchedFor(ctx, store, session.Freshness{Activity: time.Hour, Quiet: true})
			if err != nil {
				return err
			}
			if s, err = stops(ctx, store, s, true); err != nil {
				return err
			}
			if err := give(ctx, store, l, s); err != nil {
				return err
			}
			got, err := look(ctx, store, s.RunID)
			if err != nil {
				return err
			}
			if got.Stopped || got.StopFailed {
				return fmt.Errorf("the row is %+v", got)
			}
			return claims(ctx, store, got, by, session.Done)
		}}
}
