package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

type leaseKeeper struct {
	roster    *roster
	outage    *outage
	beginning chan struct{} // has room for one: whoever fills it may begin a lease
	expired   chan struct{} // has room for one: the lease has expired, and a flush is to begin another
}

// lease returns the lease of this process, and begins one if there is none.
func (k *leaseKeeper) lease(ctx context.Context) (*heldLease, error) {
	if l := k.roster.lease(); l != nil {
		return l, nil
	}
	select {
	case k.beginning <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("begin a lease: %w", context.Cause(ctx))
	}
	defer func() { <-k.beginning }()
	if l := k.roster.lease(); l != nil {
		return l, nil
	}
	cfg := k.roster.cfg
	l := &heldLease{
		id: record.NewWindow(), host: cfg.Host, promise: cfg.Promise, began: time.Now(), beat: 1, answered: 1,
	}
	if err := cfg.Store.BeginLease(ctx, l.bare()); err != nil {
		return nil, fmt.Errorf("begin a lease: %w", err)
	}
	k.roster.begun(l)
	return l, nil
}

// ofRuns returns the lease, and begins one if there are runs and none. It is nil if there is neither.
func (k *leaseKeeper) ofRuns(ctx context.Context) (*heldLease, error) {
	if k.roster.live() == 0 {
		return k.roster.lease(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.roster.cfg.RecordTimeout)
	defer cancel()
	return k.lease(ctx)
}

// lost forgets the lease if the error says that it has expired, and reports whether it does.
func (k *leaseKeeper) lost(l *heldLease, err error) bool {
	if !errors.Is(err, ErrLeaseExpired) {
		return false
	}
	if k.roster.lose(l) {
		k.roster.cfg.logger().Error(
			"the lease of this process has expired, and another is begun; runs that were cancelled end",
			"lease", l.id, "runs", k.roster.live(), "error", err)
	}
	return true
}

// startRenewing renews the lease, several times in each promise, until the func is called. That waits for the last
// renewal.
func (k *leaseKeeper) startRenewing(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(verdict.RenewAfter(k.roster.cfg.Promise))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				k.renew(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); renewing.Wait() }
}

// renew renews the lease. If that has expired, a flush begins another at once. What fails is tried again at the next
// renewal.
func (k *leaseKeeper) renew(ctx context.Context) {
	l, cfg := k.roster.lease(), k.roster.cfg
	if l == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, min(cfg.RecordTimeout, cfg.Promise))
	defer cancel()
	next := k.roster.renewal(l)
	err := cfg.Store.RenewLease(limited, next)
	if err == nil {
		k.roster.renewed(l, next.Beat)
	}
	if k.lost(l, err) {
		wake(k.expired)
		return
	}
	if ctx.Err() == nil {
		k.roster.doubtRows(l, err != nil)
	}
	k.outage.note(ctx, &k.outage.lease, err)
}

// end expires the lease of a keeper that stops, so that the sessions which it leaves behind are nobody's at once.
func (k *leaseKeeper) end(ctx context.Context) {
	l := k.roster.giveUp()
	if l == nil {
		return
	}
	last := l.bare()
	for before, cut := math.MaxInt, false; ; {
		expired, left, err := k.roster.cfg.Store.ExpireLease(ctx, last)
		if err == nil && !expired && !cut { // the renewals after it failed, or were cut short: they may not be written
			cut, last.Beat = true, l.answered
			continue
		}
		if err != nil || !expired || left == 0 || left >= before {
			return // a sweeper finds that the lease is not renewed
		}
		before = left
	}
}

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

// An outage is what of the store failed at the last try.
type outage struct {
	roster *roster

	mu          sync.Mutex
	rows, lease bool
}

func (o *outage) isDown() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rows || o.lease
}

// note notes whether a part of the store failed, rows or lease. It logs when the store begins to fail, and when it
// works again.
func (o *outage) note(ctx context.Context, part *bool, err error) {
	if ctx.Err() != nil {
		return // the keeper was stopped in the middle of a call
	}
	o.mu.Lock()
	was := o.rows || o.lease
	*part = err != nil
	is := o.rows || o.lease
	o.mu.Unlock()
	switch log, runs := o.roster.cfg.logger(), o.roster.live(); {
	case is && !was:
		log.Error("session rows cannot be kept fresh", "runs", runs, "error", err)
	case !is && was:
		log.Info("session rows are kept fresh again", "runs", runs)
	}
}
