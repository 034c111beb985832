package session

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// shortestLockPause is the first pause before an attach to a row that is locked is tried again. The pauses double, up
// to [LockWait].
const shortestLockPause = LockWait / 8

// An attached is a row that was made: as it was before and as it is, when that was, and under which lease.
type attached struct {
	before, after Session
	under         *heldLease
	at            time.Duration
}

// attachPatiently attaches, and tries again until ctx ends while another transaction has locked the row: a run that
// begins can wait, and is not to fail for it.
func (k *leaseKeeper) attachPatiently(ctx context.Context, s Session) (a attached, err error) {
	var locked error
	for tries := 0; ; tries++ {
		a, err = k.attach(ctx, s)
		switch {
		case errors.Is(err, ErrLocked):
			locked = err
		case err != nil && ctx.Err() != nil && locked != nil: // the last try was cut short
			return a, errors.Join(locked, err)
		default:
			return a, err
		}
		select {
		case <-time.After(verdict.Doubled(shortestLockPause, LockWait, tries)):
		case <-ctx.Done():
			return a, errors.Join(locked, context.Cause(ctx))
		}
	}
}

// attach writes the row of an attempt under the lease of this process. A lease that turns out to have expired is
// followed by another, once.
func (k *leaseKeeper) attach(ctx context.Context, s Session) (a attached, err error) {
	for range 2 {
		if a.under, err = k.lease(ctx); err != nil {
			break
		}
		a.at, s.Lease = a.under.now(), a.under.id
		a.before, a.after, err = k.roster.cfg.Store.Attach(ctx, s)
		if !k.lost(a.under, err) {
			break
		}
	}
	return a, err
}
