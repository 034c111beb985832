package watchdog

import (
	"context"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
)

// RecordOverrun implements [handle.Run]. It never waits for a store: a run that does everything on its caller's
// goroutine does this at the next poll. Those that come while the store is busy are appended together, so that at most
// two tasks are under way: one that is appending and one that waits for it.
func (h *runHandle) RecordOverrun(call record.Overrun) {
	w := (*Watchdog)(h)
	r := &w.recorder
	e := &entry{events: []Event{w.overrunEvent(call)}, failed: w.logOverrun}
	dropped, first := r.putSpare(e)
	for _, old := range dropped {
		w.logOverrun(old.Err())
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

// putSpare has an entry wait that is dropped before the others. It returns those that were dropped for it, and whether
// nobody is about to append it.
func (r *recorder) putSpare(e *entry) (dropped []*entry, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, r.spareDue = !r.spareDue, true
	return r.pending.PutSpare(e), first
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
