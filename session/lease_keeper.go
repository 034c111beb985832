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

// A heldLease is the lease that a keeper has. The keeper's mutex guards what changes.
type heldLease struct {
	id    string
	began time.Time
	// beat is the number of the latest renewal that was tried, answered that of the latest one that the store answered.
	beat, answered int64
	// All activity up to vouched is in the rows, and up to covered in those that are not behind. Behind is replaced and
	// never changed. Over tells that there are more.
	vouched, covered time.Duration
	behind           []RowBehind
	over             bool
	// doubts is how often it was doubted that the database has what it acknowledged: see doubtRows.
	doubts int
}

// now returns the time since the lease began.
func (l *heldLease) now() time.Duration { return time.Since(l.began) }

// lease returns the lease of this process, and begins one if there is none.
func (k *Keeper) lease(ctx context.Context) (*heldLease, error) {
	if l := k.current(); l != nil {
		return l, nil
	}
	select {
	case k.beginning <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("begin a lease: %w", context.Cause(ctx))
	}
	defer func() { <-k.beginning }()
	if l := k.current(); l != nil {
		return l, nil
	}
	l := &heldLease{id: record.NewWindow(), began: time.Now(), beat: 1, answered: 1}
	if err := k.cfg.Store.BeginLease(ctx, k.describe(l, 0, 0)); err != nil {
		return nil, fmt.Errorf("begin a lease: %w", err)
	}
	k.begun(l)
	return l, nil
}

// describe returns the lease as the store gets it.
func (k *Keeper) describe(l *heldLease, clock, vouched time.Duration) Lease {
	return Lease{
		ID: l.id, Host: k.cfg.Host, Promise: k.cfg.Promise, Beat: l.beat, Clock: clock, Vouched: vouched,
	}
}

// begun has the runs that are kept claimed back from the lease before, if there was one: those that are not active any
// more are gone, and read why.
func (k *Keeper) begun(l *heldLease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held, k.own[l.id] = l, true
	for _, r := range k.runs {
		r.quiet, r.written, r.tried, r.allowance = false, 0, 0, 0
		k.recheck(r)
	}
}

// foreign reports whether a lease is another process's: one that this process has had can have come back with an older
// copy of the database.
func (k *Keeper) foreign(lease string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return lease != "" && !k.own[lease]
}

// current returns the lease of this process, or nil.
func (k *Keeper) current() *heldLease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held
}

// lose forgets a lease that has expired.
func (k *Keeper) lose(l *heldLease, err error) {
	k.mu.Lock()
	lost, runs := k.held == l, len(k.runs)
	if lost {
		k.held = nil
	}
	k.mu.Unlock()
	if lost {
		k.logger().Error("the lease of this process has expired, and another is begun; runs that were cancelled end",
			"lease", l.id, "runs", runs, "error", err)
	}
}

// lost forgets the lease if that is what the error says, and returns the error.
func (k *Keeper) lost(l *heldLease, err error) error {
	if errors.Is(err, ErrLeaseExpired) {
		k.lose(l, err)
	}
	return err
}

// startRenewing renews the lease until the func is called, which waits for the last renewal.
func (k *Keeper) startRenewing(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { k.renewLoop(ctx) })
	return func() { cancel(); renewing.Wait() }
}

// renewLoop renews the lease, several times in each promise, until ctx ends.
func (k *Keeper) renewLoop(ctx context.Context) {
	tick := time.NewTicker(verdict.RenewAfter(k.cfg.Promise))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			k.renew(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// renew renews the lease. If that has expired, a flush begins another at once. What fails is tried again at the next
// renewal.
func (k *Keeper) renew(ctx context.Context) {
	l := k.current()
	if l == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, min(k.cfg.RecordTimeout, k.cfg.Promise))
	defer cancel()
	err := k.lost(l, k.renewLease(limited, l))
	if errors.Is(err, ErrLeaseExpired) {
		wake(k.soon)
		return
	}
	if ctx.Err() == nil && k.failsAnew(err) {
		k.doubtRows(l)
	}
	k.logOutage(ctx, &k.outage.lease, err)
}

func (k *Keeper) renewLease(ctx context.Context, l *heldLease) error {
	k.mu.Lock()
	l.beat++
	renewed := k.describe(l, l.now(), l.vouched)
	renewed.Covered, renewed.Behind = l.covered, l.behind
	k.mu.Unlock()
	err := k.cfg.Store.RenewLease(ctx, renewed)
	if err == nil {
		k.mu.Lock()
		l.answered = max(l.answered, renewed.Beat)
		k.mu.Unlock()
	}
	return err
}

// endLease expires the lease of a keeper that stops, so that the sessions which it leaves behind are nobody's at once.
func (k *Keeper) endLease(ctx context.Context) {
	l := k.current()
	if l == nil {
		return
	}
	k.mu.Lock()
	k.held = nil
	last, answered := k.describe(l, 0, 0), l.answered
	k.mu.Unlock()
	for before, cut := math.MaxInt, false; ; {
		expired, left, err := k.cfg.Store.ExpireLease(ctx, last)
		if err == nil && !expired && !cut { // the renewals after it failed, or were cut short: they may not be written
			cut, last.Beat = true, answered
			continue
		}
		if err != nil || !expired || left == 0 || left >= before {
			return // a sweeper finds that the lease is not renewed
		}
		before = left
	}
}
