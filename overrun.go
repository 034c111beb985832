package watchdog

import (
	"context"
	"errors"
	"slices"

	"github.com/seed62658d38/watchdog/internal/record"
)

// maxOverruns is how many overruns of calls wait for a store that does not take them.
const maxOverruns = 1024

// errDroppedOverrun says that a newer one took its place.
var errDroppedOverrun = errors.New("too many overruns of calls wait for the event store")

// RecordOverrun implements [handle.Run]. It never waits for a store: a run that does everything on its caller's
// goroutine does this at the next poll. Those that come while the store is busy are appended together, so that at most
// two tasks are under way: one that is appending and one that waits for it.
func (h *runHandle) RecordOverrun(call record.Overrun) {
	w := (*Watchdog)(h)
	r := &w.recorder
	e := &entry{events: []Event{w.overrunEvent(call)}, spare: true, failed: w.logOverrun}
	dropped, first := r.putSpare(e)
	for _, old := range dropped {
		w.logOverrun(old.err)
	}
	w.quietUntil.Store(0) // if it cannot be recorded, the next poll tries
	switch {
	case r.instant():
		r.appendSpare(w.storeContext())
		each(r.failures([]*entry{e}), callLog)
	case r.inline:
	case first:
		r.background(func() { r.appendSpare(w.storeContext()) }, func() {
			each(r.failures([]*entry{e}), callLog)
		})
	}
}

func (w *Watchdog) logOverrun(err error) {
	w.log().Error("watchdog could not record that a call overran", "run", w.id, "error", err)
}

// putSpare has an entry wait before all that are not spare. It returns those that were dropped for it, and whether
// nobody is about to append it.
func (r *recorder) putSpare(e *entry) (dropped []*entry, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.pending, func(other *entry) bool { return !other.spare })
	if at < 0 {
		at = len(r.pending)
	}
	r.pending = slices.Insert(r.pending, at, e)
	if at >= maxOverruns {
		r.pending[0].err = errDroppedOverrun
		dropped, r.pending = r.pending[:1:1], r.pending[1:]
	}
	first, r.spareDue = !r.spareDue, true
	return dropped, first
}

// appendSpare appends what is pending by the time that the store is free.
func (r *recorder) appendSpare(ctx context.Context) {
	begun := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.spareDue = false
	}
	defer begun() // also if the store was not free in time
	_, err := exchange(ctx, r, func(ctx context.Context) (nothing, error) {
		begun()
		r.appendAll(ctx, r.missing())
		return nothing{}, nil
	})
	if err != nil {
		r.notStored(err, r.missing()...)
	}
}
