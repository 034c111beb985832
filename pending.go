package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
)

// maxPending is how many entries wait for a store that does not take them.
const maxPending = 64

// errDropped says that newer events took the place of one that waited for the store.
var errDropped = fmt.Errorf("more than %d wait for the event store: the oldest is dropped", maxPending)

// An entry is what a run has to store of one decision, all of it or nothing: a stop, a directive, a warning. It waits
// from the decision on until the store has it: it is appended again by a retrier, at every poll and at Close, so that a
// stop is never lost silently. The host is told all the same.
type entry struct {
	make    func() []Event // makes the events when they are needed first; nil if they are there
	events  []Event
	stored  bool
	spare   bool        // dropped before the others: what became of a call
	err     error       // of the last try
	failed  func(error) // tells the log that the first try failed; nil if somebody else does
	opens   bool        // a pause
	closes  bool        // one
	opening *entry      // of the pause that it closes; nil if another process opened it
	release *entry      // of the pause that it opens; nil while that is open
}

// put has an entry wait for the store. If too many do, the oldest that can be dropped is: a run's stop is its last
// entry and so never is.
func (r *recorder) put(e *entry) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, e)
	if e.opening != nil {
		e.opening.release = e
	}
	others := len(r.pending) - slices.IndexFunc(r.pending, func(other *entry) bool { return !other.spare })
	for others > maxPending {
		dropped := r.oldest(e)
		if len(dropped) == 0 {
			break
		}
		for _, old := range dropped {
			old.err = errDropped
		}
		r.pending = slices.DeleteFunc(r.pending, func(other *entry) bool { return slices.Contains(dropped, other) })
		others -= len(dropped)
	}
	return e
}

// oldest is what is dropped for a new entry, nothing if all are needed. The caller holds mu.
func (r *recorder) oldest(than *entry) []*entry {
	for _, e := range r.pending {
		if dropped := e.droppedWith(than); dropped != nil {
			return dropped
		}
	}
	return nil
}

// droppedWith is the entry and what must be dropped with it for a new one, nil if it is needed. Of a pause the opening
// and the release are dropped together: alone, the opening would have it last until its cap for others. That is why one
// that is open is kept, and the release of one that the store has or may have. There are no more of those than holds
// were open. The caller holds mu of the recorder.
func (e *entry) droppedWith(newest *entry) []*entry {
	switch {
	case e.spare || e.closes || e == newest:
		return nil
	case !e.opens:
		return []*entry{e}
	case e.release == nil:
		return nil
	case e.release.stored:
		return []*entry{e}
	case e.release == newest || e.release.err == nil: // nobody has tried it
		return nil
	}
	return []*entry{e, e.release}
}

// keep keeps events for another try.
func (r *recorder) keep(err error, events ...Event) {
	r.put(&entry{events: events, err: err})
	r.tryLater()
}

// retry appends again what is pending, unless that is being done. It holds up a poll only if there is no other
// goroutine, for what is left of its timeout since began.
func (r *recorder) retry(ctx context.Context, began time.Time) {
	switch {
	case !r.waiting():
	case r.inline:
		r.appendPending(ctx, r.left(began))
	case r.underway() == nil:
		r.background(func() { r.appendPending(ctx, r.timeout) }, func() {})
	}
}

// flush makes the last try at what could not be recorded.
func (r *recorder) flush(ctx context.Context) error {
	r.appendPending(ctx, r.timeout)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 {
		return nil
	}
	n, last := 0, r.pending[len(r.pending)-1]
	for _, e := range r.pending {
		n += len(e.made())
	}
	return fmt.Errorf("%d of its events are not recorded, the last a %s: %w", n, last.events[len(last.events)-1].Type,
		last.err)
}

// appendPending appends what is pending by the time that the store is free, for at most limit.
func (r *recorder) appendPending(ctx context.Context, limit time.Duration) {
	if !r.waiting() {
		return
	}
	_, err := exchangeWithin(ctx, r, limit, func(ctx context.Context) (nothing, error) {
		r.appendAll(ctx, r.missing())
		return nothing{}, nil
	})
	if err != nil {
		r.notStored(err, r.missing()...)
	}
}

// appendAll appends the entries together. If the store refuses that, it appends each by itself, the newest first, so
// that one that is refused for good keeps none of the others from the store, least of all the stop.
func (r *recorder) appendAll(ctx context.Context, entries []*entry) {
	err := r.appendOnce(ctx, entries)
	if err == nil || len(entries) == 1 {
		return
	}
	for i := len(entries) - 1; i >= 0 && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded); i-- {
		err = r.appendOnce(ctx, entries[i:i+1])
	}
}

// appendOnce notes what came of one append, also if the store answers late.
func (r *recorder) appendOnce(ctx context.Context, entries []*entry) error {
	var events []Event
	for _, e := range entries {
		events = append(events, e.events...)
	}
	_, err := storeErr(bounded.Here(func() (nothing, error) { return nothing{}, r.store.Append(ctx, events...) }))
	if err != nil {
		err = fmt.Errorf("append events: %w", err)
		r.notStored(err, entries...)
		return err
	}
	r.stored(entries)
	return nil
}

// stored notes that the store has the entries.
func (r *recorder) stored(entries []*entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(entries)
}

// settle takes entries that are stored from what is pending. The caller holds mu.
func (r *recorder) settle(stored []*entry) {
	for _, e := range stored {
		e.stored = true
	}
	r.pending = slices.DeleteFunc(r.pending, func(e *entry) bool { return e.stored })
	if len(r.pending) == 0 {
		r.tries = 0
	}
}

// waiting reports whether the store does not have everything.
func (r *recorder) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending) > 0
}

// missing are the entries that the store does not have, with their events.
func (r *recorder) missing() []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.pending {
		e.made()
	}
	return slices.Clone(r.pending)
}

// missingPauses are the events of pauses that the store does not have, in their order.
func (r *recorder) missingPauses() (events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.pending {
		if e.opens || e.closes {
			events = append(events, e.made()...)
		}
	}
	return events
}

// made returns the events of the entry. The caller holds mu of the recorder.
func (e *entry) made() []Event {
	if e.make != nil {
		e.events, e.make = e.make(), nil
	}
	return e.events
}

// recorded notes that the store has the events, also when it says so late.
func (r *recorder) recorded(events ...Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, missing := range r.pending {
		for _, e := range events {
			missing.stored = missing.stored || slices.ContainsFunc(missing.events, func(m Event) bool { return m.ID == e.ID })
		}
	}
	r.settle(nil)
}

// notStored notes why the store did not take the entries. They are tried again.
func (r *recorder) notStored(err error, entries ...*entry) {
	r.mu.Lock()
	for _, e := range entries {
		e.err = err
	}
	r.mu.Unlock()
	r.tryLater()
}

// failures are what is to be logged of entries that were tried.
func (r *recorder) failures(entries []*entry) (logs []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		if err := e.err; !e.stored && err != nil {
			logs = append(logs, func() { e.failed(err) })
		}
	}
	return logs
}
