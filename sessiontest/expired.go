package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var expiredRules = []rule{
	{
		"a session that left an expired lease says which, whoever reads it, and no other does",
		"every sweeper ends it because its process died, and says what was seen of that",
		func(ctx context.Context, store session.Store) error {
			live, err := attachLeased(ctx, store, "lease-2", "live")
			if err != nil {
				return err
			}
			l, s, err := vouchedFor(ctx, store, session.Freshness{Activity: time.Hour})
			if err != nil {
				return err
			}
			l, err = expireSeen(ctx, store, l)
			return errors.Join(err, saysExpired(ctx, store, s.RunID, l), findsExpired(ctx, store, s.RunID, l),
				listsExpired(ctx, store, s.RunID, l), saysExpired(ctx, store, live.RunID, session.Lease{}))
		},
	},
	{
		"a session that leaves an expired lease late says which, too",
		"its row was locked, or there were too many for one transaction",
		func(ctx context.Context, store session.Store) error {
			l, left, err := expireMost(ctx, store)
			if err != nil {
				return err
			}
			l.Looks, l.RenewedAt = 5, noon
			return errors.Join(saysExpired(ctx, store, left.RunID, session.Lease{}), expires(ctx, store, l, true, 0),
				saysExpired(ctx, store, left.RunID, l))
		},
	},
	{
		"a session that is claimed back forgets the lease that expired, for good",
		"its process lives: if it is silent after that, it is not because it died",
		func(ctx context.Context, store session.Store) error {
			if _, err := expireOne(ctx, store, "back"); err != nil {
				return err
			}
			if _, err := begin(ctx, store, "lease-2"); err != nil {
				return err
			}
			claim := session.Freshness{RunID: "back", Attempt: 1, Activity: time.Second}
			return errors.Join(freshens(ctx, store, "lease-2", claim), saysExpired(ctx, store, "back", session.Lease{}),
				end(ctx, store, session.Ending{RunID: "back", Attempt: 1, Status: session.Finished}),
				saysExpired(ctx, store, "back", session.Lease{}))
		},
	},
	{
		"the next attempt of a session knows no lease that expired",
		"the process of the attempt before died, and this one may live",
		func(ctx context.Context, store session.Store) error {
			if _, err := expireOne(ctx, store, "again"); err != nil {
				return err
			}
			s, err := attach(ctx, store, newSession("again"))
			return errors.Join(err, namesExpired(s, session.Lease{}), saysExpired(ctx, store, "again", session.Lease{}))
		},
	},
	{
		"a session keeps the lease that expired while it is claimed and warned, and when it was cancelled",
		"a sweeper that dies between claim and cancel leaves it to another, and a cancel in doubt is looked up",
		func(ctx context.Context, store session.Store) error {
			keeps := func(runID string, call func(judged session.Session) error) error {
				l, err := expireOne(ctx, store, runID)
				if err != nil {
					return err
				}
				judged, err := look(ctx, store, runID)
				return errors.Join(err, call(judged), saysExpired(ctx, store, runID, l))
			}
			return errors.Join(
				keeps("warned", func(s session.Session) error { return warns(ctx, store, s, session.Done) }),
				keeps("claimed", func(s session.Session) error { return claims(ctx, store, s, by, session.Done) }),
				keeps("kept", func(s session.Session) error { return cancels(ctx, store, s, session.Done) }))
		},
	},
}

// expireOne attaches a run under a lease and expires that.
func expireOne(ctx context.Context, store session.Store, runID string) (session.Lease, error) {
	l, err := begin(ctx, store, homeLease)
	if err != nil {
		return l, err
	}
	if _, err := attach(ctx, store, underLease(newSession(runID), homeLease)); err != nil {
		return l, err
	}
	return expireSeen(ctx, store, l)
}

// expireSeen expires a lease as a sweeper does which looked at it four times. It does not say that the session is lost.
func expireSeen(ctx context.Context, store session.Store, l session.Lease) (session.Lease, error) {
	l.Looks, l.RenewedAt = 4, noon.Add(123456*time.Microsecond)
	return l, expires(ctx, store, l, true, 0)
}

// saysExpired checks which expired lease the row of a run names; that with a zero ID is none.
func saysExpired(ctx context.Context, store session.Store, runID string, want session.Lease) error {
	s, err := look(ctx, store, runID)
	if err != nil {
		return err
	}
	return namesExpired(s, want)
}

func namesExpired(s session.Session, want session.Lease) error {
	got := s.Expired
	if got.ID == want.ID && got.Looks == want.Looks && got.RenewedAt.Equal(want.RenewedAt) {
		return nil
	}
	return fmt.Errorf("%s, in attempt %d, names the expired lease %+v, want %q after %d looks, renewed at %v",
		s.RunID, s.Attempt, got, want.ID, want.Looks, want.RenewedAt)
}

// findsExpired is saysExpired for a run that is stalled.
func findsExpired(ctx context.Context, store session.Store, runID string, want session.Lease) error {
	page, err := find(ctx, store, session.Query{Threshold: threshold, Limit: 10})
	if err == nil && (len(page.Sessions) != 1 || page.Sessions[0].RunID != runID) {
		err = fmt.Errorf("stalled are %q, want %s", names(page.Sessions), runID)
	}
	if err != nil {
		return err
	}
	return namesExpired(page.Sessions[0], want)
}

// listsExpired is saysExpired for the list of a store that is a [session.Lister].
func listsExpired(ctx context.Context, store session.Store, runID string, want session.Lease) error {
	page, err := list(ctx, store, session.ListQuery{})
	if errors.Is(err, errNotCheckable) {
		return nil
	}
	for _, s := range page.Sessions {
		if s.RunID == runID {
			err = errors.Join(err, namesExpired(s, want))
		}
	}
	return err
}
