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
