package sessiontest

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// signRules are about what happens to a session after it was judged. Each sign changes as little of the row as it can.
var signRules = []rule{
	signRule("that was active again", "between the judgement and the cancel a run may continue",
		func(ctx context.Context, store session.Store, s session.Session) error {
			return freshens(ctx, store, s.Lease,
				session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Activity: s.Activity + 1, Quiet: true})
		}),
	signRule("that another lease has taken up", "its process was taken for dead, and goes on",
		func(ctx context.Context, store session.Store, s session.Session) error {
			if _, err := begin(ctx, store, "lease-2"); err != nil {
				return err
			}
			return freshens(ctx, store, "lease-2",
				session.Freshness{RunID: s.RunID, Attempt: s.Attempt, Activity: s.Activity, Quiet: true})
		}),
	signRule("whose lease has expired", "its last activity is by another clock now: it has to be judged again",
		func(ctx context.Context, store session.Store, s session.Session) error {
			l, err := observe(ctx, store, s.Lease)
			if err != nil {
				return err
			}
			return expires(ctx, store, l, true, 0)
		}),
	signRule("that was attached again", "another host took the run over after it was judged",
		func(ctx context.Context, store session.Store, s session.Session) error {
			_, err := attach(ctx, store, underLease(newSession(s.RunID), s.Lease))
			return err
		}),
	signRule("that has ended", "a run that finished while it was judged did not stall",
		func(ctx context.Context, store session.Store, s session.Session) error {
			return end(ctx, store,
				session.Ending{RunID: s.RunID, Attempt: s.Attempt, Status: session.Finished, Age: day})
		}),
	{
		"a session that was put into a lease is neither claimed nor warned nor cancelled",
		"its process was taken for dead, and has claimed it back",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			if _, err := begin(ctx, store, homeLease); err != nil {
				return err
			}
			f := session.Freshness{RunID: s.RunID, Attempt: s.Attempt}
			return errors.Join(freshens(ctx, store, homeLease, f), changed(ctx, store, s))
		},
	},
	{
		"a run without a row is neither claimed nor warned",
		"somebody may delete a row while it is judged",
		func(ctx context.Context, store session.Store) error {
			s := silentSession("unknown", noon, time.Hour)
			return errors.Join(claims(ctx, store, s, by, session.Changed), warns(ctx, store, s, session.Changed),
				recorded(ctx, store, s.RunID))
		},
	},
}

// signRule is the rule that nothing is done to a session that has changed since it was judged.
func signRule(which, why string, change func(context.Context, session.Store, session.Session) error) rule {
	return rule{"a session " + which + " is neither claimed nor warned nor cancelled", why,
		func(ctx context.Context, store session.Store) error {
			_, judged, err := vouchedFor(ctx, store, session.Freshness{Activity: 0, Quiet: true})
			if err != nil {
				return err
			}
			return errors.Join(change(ctx, store, judged), changed(ctx, store, judged))
		}}
}

// changed checks that a session that is not as it was judged is left alone.
func changed(ctx context.Context, store session.Store, judged session.Session) error {
	s, err := look(ctx, store, judged.RunID)
	if err != nil {
		return err
	}
	return errors.Join(
		claims(ctx, store, judged, by, session.Changed), warns(ctx, store, judged, session.Changed),
		cancels(ctx, store, judged, session.Changed), looksLike(ctx, store, s), recorded(ctx, store, judged.RunID))
}
