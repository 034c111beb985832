package sessiontest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var leaseRules = []rule{
	{
		"a lease is read as it was begun, renewed now",
		"whoever observes it counts in its promises, and the silence of its runs is by its clock",
		func(ctx context.Context, store session.Store) error {
			want := session.Lease{
				ID: homeLease, Host: "höst", Promise: 1_234_567_891, Beat: 1 << 40, Clock: 1000*day + 1, Vouched: 999*day + 2,
			}
			return renewed(ctx, store, want, func() error { return store.BeginLease(ctx, want) })
		},
	},
	{
		"beginning a lease that lives is no error and changes nothing",
		"the answer to the first try may have been lost, and the lease may have been renewed since",
		func(ctx context.Context, store session.Store) error {
			l, err := beginAt(ctx, store, homeLease, time.Hour)
			if err != nil {
				return err
			}
			again := session.Lease{ID: homeLease, Host: "host-2", Promise: time.Minute, Beat: 1}
			return errors.Join(store.BeginLease(ctx, again), leaseIs(ctx, store, l))
		},
	},
	{
		"a lease with a promise that is too long, or negative, is an error and not made",
		"a sweeper would have to watch it for hours to find its process dead",
		func(ctx context.Context, store session.Store) error {
			for _, promise := range []time.Duration{session.LongestPromise + time.Second, -time.Second} {
				err := store.BeginLease(ctx, session.Lease{ID: homeLease, Host: host, Promise: promise, Beat: 1})
				if err == nil {
					return fmt.Errorf("a lease was begun with the promise %v", promise)
				}
			}
			got, err := observe(ctx, store, homeLease)
			if err == nil && got.ID != "" {
				err = fmt.Errorf("the lease is %+v", got)
			}
			return err
		},
	},
	{
		"a renewal writes the beat, the clock and the instant vouched for, and the time",
		"a lease whose beat stands still belongs to a dead process",
		func(ctx context.Context, store session.Store) error {
			l, err := begin(ctx, store, homeLease)
			if err != nil {
				return err
			}
			l.Beat, l.Clock, l.Vouched = 2, 1000*day+1, 1000*day
			return renewed(ctx, store, l, func() error { return store.RenewLease(ctx, l) })
		},
	},
	{
		"nothing that a renewal writes ever decreases",
		"a renewal that comes late would make a live process look dead, or a live run silent",
		func(ctx context.Context, store session.Store) error {
			l, err := beginAt(ctx, store, homeLease, time.Hour)
			if err != nil {
				return err
			}
			late, next := l, l
			late.Beat, late.Clock, late.Vouched = l.Beat-1, l.Clock-1, l.Vouched-1
			next.Beat, next.Clock, next.Vouched = l.Beat+1, l.Clock-1, l.Vouched-1
			if err := errors.Join(store.RenewLease(ctx, late), leaseIs(ctx, store, l)); err != nil {
				return err
			}
			again := l
			again.Clock, again.Vouched = l.Clock+1, l.Vouched+1
			if err := errors.Join(store.RenewLease(ctx, again), leaseIs(ctx, store, l)); err != nil {
				return fmt.Errorf("a renewal with the beat of the one before: %w", err)
			}
			l.Beat++
			return errors.Join(store.RenewLease(ctx, next), leaseIs(ctx, store, l))
		},
	},
	{
		"a lease that was never begun cannot be renewed",
		"a lease that was deleted has expired, and must not come back",
		func(ctx context.Context, store session.Store) error {
			err := store.RenewLease(ctx, session.Lease{ID: homeLease, Host: host, Promise: time.Second, Beat: 2})
			if !errors.Is(err, session.ErrLeaseExpired) {
				return fmt.Errorf("the error is %w, want ErrLeaseExpired", err)
			}
			return noLease(ctx, store, homeLease)
		},
	},
	{
		"all leases are observed, ordered by ID, whoever is a suspect",
		"a lease that is not observed never expires, and its dead sessions stay active for ever",
		func(ctx context.Context, store session.Store) error {
			want := []string{"A", "a", "lease 1", "lease-1", "z"}
			for _, id := range []string{"z", "a", "lease-1", "A", "lease 1"} {
				if _, err := begin(ctx, store, id); err != nil {
					return err
				}
			}
			suspects := [][]string{nil, {"lease-1"}, {"z", "A", "a", "lease 1", "lease-1"}, {"unknown", "z"}}
			return contract.Each(suspects, func(suspects []string) error {
				all, err := store.ObserveLeases(ctx, suspects)
				var got []string
				for _, l := range all {
					got = append(got, l.ID)
				}
				if err == nil && !slices.Equal(got, want) {
					err = fmt.Errorf("with the suspects %q the leases are %q, want %q", suspects, got, want)
				}
				return err
			})
		},
	},
	{
		"to observe a lease does not change it",
		"a sweeper that renews what it looks at never finds a process dead",
		func(ctx context.Context, store session.Store) error {
			if _, err := beginAt(ctx, store, homeLease, time.Hour); err != nil {
				return err
			}
			first, err := observe(ctx, store, homeLease)
			if err != nil {
				return err
			}
			return contract.Each([]int{1, 2, 3}, func(int) error {
				next, err := observe(ctx, store, homeLease, homeLease)
				if err == nil && !sameLease(next, first) {
					err = fmt.Errorf("the lease is\n\t%+v, was\n\t%+v", next, first)
				}
				return err
			})
		},
	},
	{
		"a renewal between two looks at a suspect is seen by the second",
		"with an old snapshot a live process looks dead",
		func(ctx context.Context, store session.Store) error {
			l, err := begin(ctx, store, homeLease)
			if err != nil {
				return err
			}
			for range 3 {
				seen, err := observe(ctx, store, homeLease, homeLease)
				if err == nil && (seen.Beat != l.Beat || seen.Clock != l.Clock) {
					err = fmt.Errorf("the lease is %+v, want the beat %d at %v", seen, l.Beat, l.Clock)
				}
				if err != nil {
					return err
				}
				if l, err = vouch(ctx, store, l, l.Vouched+time.Second); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"the sessions of a lease are its active ones, each with its attempt",
		"a keeper ends the runs whose rows another attempt has, and attaches again to those whose rows were lost",
		func(ctx context.Context, store session.Store) error {
			for _, runID := range []string{"first", "second", "second", "ended"} {
				if _, err := attachLeased(ctx, store, homeLease, runID); err != nil {
					return err
				}
			}
			if _, err := attachLeased(ctx, store, "lease-2", "of another"); err != nil {
				return err
			}
			if _, err := attach(ctx, store, newSession("of none")); err != nil {
				return err
			}
			if err := end(ctx, store, session.Ending{RunID: "ended", Attempt: 1, Status: session.Finished}); err != nil {
				return err
			}
			return errors.Join(
				leads(ctx, store, homeLease, session.AttemptID{RunID: "first", Attempt: 1},
					session.AttemptID{RunID: "second", Attempt: 2}),
				leads(ctx, store, "unknown"),
			)
		},
	},
}

// renewed checks a lease that renew writes.
func renewed(ctx context.Context, store session.Store, want session.Lease, renew func() error) error {
	from, err := movedClock(ctx, store)
	if err != nil {
		return err
	}
	if err := renew(); err != nil {
		return err
	}
	to, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	got, err := observe(ctx, store, want.ID)
	return errors.Join(err, leaseIs(ctx, store, want), within("RenewedAt", got.RenewedAt, from, to))
}

// movedClock returns the time of the store's clock when that has moved on, or after a hundred tries.
func movedClock(ctx context.Context, store session.Store) (time.Time, error) {
	first, err := clockOf(ctx, store)
	now := first
	for tries := 0; err == nil && tries < 100 && now.Equal(first); tries++ {
		now, err = clockOf(ctx, store)
	}
	return now, err
}

// leaseIs checks what a process wrote into its lease.
func leaseIs(ctx context.Context, store session.Store, want session.Lease) error {
	got, err := observe(ctx, store, want.ID)
	if err != nil {
		return err
	}
	want.RenewedAt = got.RenewedAt
	if !sameLease(got, want) {
		return fmt.Errorf("the lease is\n\t%+v, want\n\t%+v", got, want)
	}
	return nil
}

func sameLease(a, b session.Lease) bool {
	a.RenewedAt, b.RenewedAt = a.RenewedAt.UTC(), b.RenewedAt.UTC()
	behind := slices.Equal(a.Behind, b.Behind)
	a.Behind, b.Behind = nil, nil
	return behind && reflect.DeepEqual(a, b)
}

func noLease(ctx context.Context, store session.Store, id string) error {
	l, err := observe(ctx, store, id)
	if err == nil && l.ID != "" {
		err = fmt.Errorf("there is the lease %+v", l)
	}
	return err
}

// leads checks which sessions name a lease.
func leads(ctx context.Context, store session.Store, lease string, want ...session.AttemptID) error {
	got, err := store.LeaseSessions(ctx, lease)
	slices.SortFunc(got, func(a, b session.AttemptID) int { return cmp.Compare(a.RunID, b.RunID) })
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("the sessions of %s are %+v, want %+v", lease, got, want)
	}
	return err
}
