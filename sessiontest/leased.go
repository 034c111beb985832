package sessiontest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// lag is how far the clock of a lease is beyond what it vouches for.
const lag = time.Minute

// begin begins a lease whose process has written nothing yet.
func begin(ctx context.Context, store session.Store, id string) (session.Lease, error) {
	l := session.Lease{ID: id, Host: host, Promise: 10 * time.Second, Beat: 1}
	if err := store.BeginLease(ctx, l); err != nil {
		return session.Lease{}, fmt.Errorf("begin the lease %s: %w", id, err)
	}
	return l, nil
}

// vouch renews a lease, which vouches for all before an instant of its clock. What was not written yet holds the
// instant back: the clock has gone on since, by lag.
func vouch(ctx context.Context, store session.Store, l session.Lease, at time.Duration) (session.Lease, error) {
	l.Beat, l.Clock, l.Vouched = l.Beat+1, at+lag, at
	if err := store.RenewLease(ctx, l); err != nil {
		return session.Lease{}, fmt.Errorf("renew the lease %s: %w", l.ID, err)
	}
	return l, nil
}

// beginAt begins a lease that vouches for all before an instant of its clock.
func beginAt(ctx context.Context, store session.Store, id string, at time.Duration) (session.Lease, error) {
	l, err := begin(ctx, store, id)
	if err != nil {
		return session.Lease{}, err
	}
	return vouch(ctx, store, l, at)
}

// attachLeased begins a lease and attaches to a run under it.
func attachLeased(ctx context.Context, store session.Store, lease, runID string) (session.Session, error) {
	if _, err := begin(ctx, store, lease); err != nil {
		return session.Session{}, err
	}
	return attach(ctx, store, underLease(newSession(runID), lease))
}

func underLease(s session.Session, lease string) session.Session {
	s.Lease = lease
	return s
}

// observe returns a lease as it is observed, with a zero ID if there is none.
func observe(ctx context.Context, store session.Store, id string, suspects ...string) (session.Lease, error) {
	all, err := store.ObserveLeases(ctx, suspects)
	if err != nil {
		return session.Lease{}, fmt.Errorf("observe leases: %w", err)
	}
	i := slices.IndexFunc(all, func(l session.Lease) bool { return l.ID == id })
	if i < 0 {
		return session.Lease{}, nil
	}
	return all[i], nil
}

// expires checks what ExpireLease returns.
func expires(ctx context.Context, store session.Store, l session.Lease, want bool, wantLeft int) error {
	expired, left, err := store.ExpireLease(ctx, l)
	if err != nil {
		return fmt.Errorf("expire the lease %s: %w", l.ID, err)
	}
	if expired != want || left != wantLeft {
		return fmt.Errorf("expire the lease %s: it returned %v and %d sessions left, want %v and %d",
			l.ID, expired, left, want, wantLeft)
	}
	return nil
}
