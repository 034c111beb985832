package session

import (
	"context"
	"sync"
)

// An outage is what of the store failed at the last try.
type outage struct {
	roster *roster

	mu          sync.Mutex
	rows, lease bool
}

// isDown reports whether the store failed at the last try.
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
