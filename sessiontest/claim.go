package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var claimRules = []rule{
	{
		"a claimed session names the pass, and is as it was otherwise",
		"the pass judges it once more, and cancels it as it was judged",
		func(ctx context.Context, store session.Store) error {
			_, s, err := vouchedFor(ctx, store, session.Freshness{Activity: time.Hour, Quiet: true})
			if err != nil {
				return err
			}
			if err := claims(ctx, store, s, by, session.Done); err != nil {
				return err
			}
			s.Claim = by
			return errors.Join(looksLike(ctx, store, s), findsOnly(ctx, store, homeRun))
		},
	},
	{
		"while a claim lasts, nobody else claims, warns or cancels",
		"the agents of a session are stopped once, whichever sweepers race",
		func(ctx context.Context, store session.Store) error {
			return claimed(ctx, store, time.Hour, func(s session.Session) error {
				other, nobody := cancelOf(homeRun), cancelOf(homeRun)
				other.By, nobody.By = "pass-2", ""
				return errors.Join(
					claims(ctx, store, s, "pass-2", session.Taken), warns(ctx, store, s, session.Taken),
					cancelsAs(ctx, store, s, other, session.Taken), cancelsAs(ctx, store, s, nobody, session.Taken),
					looksLike(ctx, store, s), recorded(ctx, store, homeRun))
			})
		},
	},
	{
		"the pass that claimed a session can claim it again, and cancel it",
		"the answer to the first claim may have been lost",
		func(ctx context.Context, store session.Store) error {
			return claimed(ctx, store, time.Hour, func(s session.Session) error {
				return errors.Join(claims(ctx, store, s, by, session.Done), cancels(ctx, store, s, session.Done))
			})
		},
	},
	{
		"a claim that is over does not count",
		"a sweeper that died with a claim would keep the session for ever",
		func(ctx context.Context, store session.Store) error {
			return claimed(ctx, store, 0, func(s session.Session) error {
				for i := range 50 { // the clock may show the end of the claim before
					if err := claimsFor(ctx, store, s, fmt.Sprint("short-", i), 0, session.Done); err != nil {
						return err
					}
				}
				err := errors.Join(
					claims(ctx, store, s, "pass-2", session.Done), claims(ctx, store, s, by, session.Taken))
				s.Claim = "pass-2"
				return errors.Join(err, looksLike(ctx, store, s))
			})
		},
	},
	{
		"a claim lasts as long as its pass said last",
		"a pass that needs longer claims again, and one that gives up claims for no time",
		func(ctx context.Context, store session.Store) error {
			return claimed(ctx, store, time.Hour, func(s session.Session) error {
				c := cancelOf(homeRun)
				c.By = "pass-2"
				return errors.Join(
					claimsFor(ctx, store, s, by, 0, session.Done), cancelsAs(ctx, store, s, c, session.Done))
			})
		},
	},
	{
		"of eight claims at once one counts",
		"several sweepers on several hosts may judge one session in the same second",
		func(ctx context.Context, store session.Store) error {
			return eachRound(ctx, store, func(_ int, s session.Session) error {
				winner, err := onlyWinner(session.Taken, func(caller int) (session.Outcome, error) {
					return store.Claim(ctx, s, session.ClaimRequest{By: fmt.Sprint("pass-", caller), For: time.Hour})
				})
				s.Claim = fmt.Sprint("pass-", winner)
				return errors.Join(err, looksLike(ctx, store, s))
			})
		},
	},
	{
		"a warning is noted with its events, and the time",
		"the run learns of it from its events, and a sweeper from the row when its grace is over",
		func(ctx context.Context, store session.Store) error {
			_, s, err := vouchedFor(ctx, store, session.Freshness{Activity: time.Hour, Quiet: true})
			if err != nil {
				return err
			}
			from, err := clockOf(ctx, store)
			if err != nil {
				return err
			}
			if err := warns(ctx, store, s, session.Done); err != nil {
				return err
			}
			to, err := clockOf(ctx, store)
			if err != nil {
				return err
			}
			got, err := look(ctx, store, homeRun)
			s.WarnedAt = got.WarnedAt
			page, findErr := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: 1})
			for _, found := range page.Sessions {
				findErr = errors.Join(findErr, differs(found, s))
			}
			return errors.Join(err, findErr, within("WarnedAt", got.WarnedAt, from, to), differs(got, s),
				recorded(ctx, store, homeRun, "warning of "+homeRun))
		},
	},
	{
		"a warning with an invalid event is an error and changes nothing",
		"a run that does not know of its warning would be cancelled without one",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			valid, invalid := warning(homeRun), warning(homeRun)
			invalid.ID = ""
			outcome, err := store.Warn(ctx, s, []watchdog.Event{valid, invalid})
			if outcome != "" || !errors.Is(err, watchdog.ErrInvalid) {
				return fmt.Errorf("the outcome is %q and the error %w, want watchdog.ErrInvalid", outcome, err)
			}
			return errors.Join(looksLike(ctx, store, s), recorded(ctx, store, homeRun))
		},
	},
	voidRule("an activity", func(ctx context.Context, store session.Store, l session.Lease, s session.Session) error {
		return freshens(ctx, store, l.ID,
			session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Activity: s.Activity + 1, Quiet: true})
	}),
	voidRule("another lease", func(ctx context.Context, store session.Store, _ session.Lease, s session.Session) error {
		if _, err := begin(ctx, store, "lease-2"); err != nil {
			return err
		}
		return freshens(ctx, store, "lease-2",
			session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Activity: s.Activity, Quiet: true})
	}),
	voidRule("the death of its process",
		func(ctx context.Context, store session.Store, l session.Lease, _ session.Session) error {
			return expires(ctx, store, l, true, 0)
		}),
	{
		"a warning stands until the session gives a sign of life",
		"a keeper writes a quiet row again and again, and renews its lease: a grace would never be over",
		func(ctx context.Context, store session.Store) error {
			return warned(ctx, store, func(l session.Lease, s session.Session) error {
				f := session.Freshness{
					RunID: s.RunID, Attempt: s.Attempt, Activity: s.Activity, Quiet: true, State: []byte(`{"warned":1}`),
				}
				if err := freshens(ctx, store, l.ID, f); err != nil {
					return err
				}
				if _, err := vouch(ctx, store, l, l.Vouched+time.Second); err != nil {
					return err
				}
				s.State, s.Silence = f.State, s.Silence+time.Second
				return looksLike(ctx, store, s)
			})
		},
	},
	{
		"a session that was warned is claimed and cancelled like others",
		"a warning is no sign of life",
		func(ctx context.Context, store session.Store) error {
			return warned(ctx, store, func(_ session.Lease, s session.Session) error {
				before := s
				before.WarnedAt = time.Time{}
				return errors.Join(
					claims(ctx, store, before, by, session.Done), claims(ctx, store, s, by, session.Done),
					cancels(ctx, store, s, session.Done))
			})
		},
	},
}

// claimed checks a session that a pass has claimed.
func claimed(
	ctx context.Context, store session.Store, length time.Duration, check func(session.Session) error,
) error {
	s, err := putSilent(ctx, store, homeRun, time.Hour)
	if err != nil {
		return err
	}
	if err := claimsFor(ctx, store, s, by, length, session.Done); err != nil {
		return err
	}
	s.Claim = by
	return check(s)
}

// warned checks a quiet session of a lease that was warned.
func warned(
	ctx context.Context, store session.Store, check func(session.Lease, session.Session) error,
) error {
	l, s, err := vouchedFor(ctx, store, session.Freshness{Activity: 0, Quiet: true})
	if err != nil {
		return err
	}
	if err := warns(ctx, store, s, session.Done); err != nil {
		return err
	}
	if s, err = look(ctx, store, s.RunID); err != nil {
		return err
	}
	if s.WarnedAt.IsZero() {
		return errors.New("the row does not say that the session was warned")
	}
	return check(l, s)
}

// voidRule is the rule that a sign of life makes a warning void.
func voidRule(
	sign string, give func(context.Context, session.Store, session.Lease, session.Session) error,
) rule {
	return rule{"a warning is void after " + sign, "the session would be cancelled without a warning of its next silence",
		func(ctx context.Context, store session.Store) error {
			return warned(ctx, store, func(l session.Lease, s session.Session) error {
				if err := give(ctx, store, l, s); err != nil {
					return err
				}
				got, err := look(ctx, store, s.RunID)
				if err == nil && !got.WarnedAt.IsZero() {
					err = fmt.Errorf("the row is %+v", got)
				}
				return err
			})
		}}
}
