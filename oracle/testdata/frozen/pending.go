package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/bounded"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/pending"
)

// An entry is what a run has to store of one decision, all of it or nothing: a stop, a directive, a warning. It waits
// from the decision on until the store has it: it is appended again by a retrier, at every poll and at Close, so that a
// stop is never lost silently. The host is told all the same.
type entry struct {
	pending.State
	make   func() []Event // makes the events when they are needed first; nil if they are there
	events []Event
	failed func(error) // tells the log that the first try failed; nil if somebody else does
}

// put has an entry wait for the store. A run's stop is its last and so is never dropped.
func (r *recorder) put(e *entry) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending.Put(e)
	return e
}

// keep keeps events for another try.
func (r *recorder) keep(err error, events ...Event) {
	r.notStored(err, r.put(&entry{events: events}))
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
	if r.pending.Empty() {
		return nil
	}
	n, missing := 0, r.pending.All()
	for _, e := range missing {
		n += len(e.made())
	}
	last := missing[len(missing)-1]
	return fmt.Errorf("%d of its events are not recorded, the last a %s: %w", n, last.events[len(last.events)-1].Type,
		last.Err())
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
	r.pending.Settle(stored)
	if r.pending.Empty() {
		r.tries = 0
	}
}

// waiting reports whether the store does not have everything.
func (r *recorder) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.pending.Empty()
}

// missing are the entries that the store does not have, with their events.
func (r *recorder) missing() []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := r.pending.All()
	for _, e := range missing {
		e.made()
	}
	return missing
}

// missingPauses are the events of pauses that the store does not have, in their order.
func (r *recorder) missingPauses() (events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.pending.Pauses() {
		events = append(events, e.made()...)
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
	r.settle(slices.DeleteFunc(r.pending.All(), func(e *entry) bool { return !e.hasAny(events) }))
}

// hasAny reports whether an event of the entry is among those.
func (e *entry) hasAny(events []Event) bool {
	return slices.ContainsFunc(e.events, func(own Event) bool {
		return slices.ContainsFunc(events, func(other Event) bool { return own.ID == other.ID })
	})
}

// notStored notes why the store did not take the entries. They are tried again.
func (r *recorder) notStored(err error, entries ...*entry) {
	r.mu.Lock()
	r.pending.Fail(err, entries)
	r.mu.Unlock()
	r.tryLater()
}

// failures are what is to be logged of entries that were tried.
func (r *recorder) failures(entries []*entry) (logs []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		if err := e.Err(); err != nil {
			logs = append(logs, func() { e.failed(err) })
		}
	}
	return logs
}
