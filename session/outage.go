package session

import "context"

// An outage is what of the store failed at the last try: the keeper's mutex guards it.
type outage struct{ rows, lease bool }

func (o outage) any() bool { return o.rows || o.lease }

// isDown reports whether the store failed at the last try.
func (k *Keeper) isDown() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.outage.any()
}

// failsAnew reports whether renewals begin to fail, or work again.
func (k *Keeper) failsAnew(err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.outage.lease != (err != nil)
}

// doubtRows has the next flush write all rows, whatever was acknowledged, and the lease vouch for nothing new until
// then. That a renewal fails can be all that is seen of a server whose standby takes its place, and that lost what was
// acknowledged last: a run that woke up would look silent for ever, or one that fell silent awake.
func (k *Keeper) doubtRows(l *heldLease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.doubts++
	l.vouched, l.covered = 0, 0 // the database keeps what it has: no row is older than that
	for _, r := range k.runs {
		r.state = nil
		k.recheck(r)
	}
}

func (k *Keeper) doubtsOf(l *heldLease) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.doubts
}

// logOutage notes whether a part of the store failed, and logs when the store begins to fail, and when it works again.
func (k *Keeper) logOutage(ctx context.Context, part *bool, err error) {
	if ctx.Err() != nil {
		return // the keeper was stopped in the middle of a call
	}
	k.mu.Lock()
	was, runs := k.outage.any(), len(k.runs)
	*part = err != nil
	is := k.outage.any()
	k.mu.Unlock()
	switch {
	case is && !was:
		k.logger().Error("session rows cannot be kept fresh", "runs", runs, "error", err)
	case !is && was:
		k.logger().Info("session rows are kept fresh again", "runs", runs)
	}
}
