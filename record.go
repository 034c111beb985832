package watchdog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// storing is what is under way between a run and its store. The tree's mu guards it. The exchanges of a run do not
// overlap, so that a store that hangs is not asked again while it does, and each lasts at most the timeout. What is
// decided waits in one line and is appended together, so that it costs one exchange however much it is. Only the end
// has an exchange of its own.
type storing struct {
	ending *ending          // that is being recorded
	job    chan struct{}    // closed when nothing is left to be recorded; nil if nothing is
	since  time.Time        // when there was
	again  bool             // there is more for who is at it
	untold []*machine.Entry // that the host is told of once they were tried
	vain   uint8            // tries, which a lane made since the store had everything
	marks  atomic.Uint32    // wasLeft, isClosed
}

// An ending is the run's end while it is being recorded. Done is closed when the run has its end, or runs on because it
// was given more time; told when the host was told of it, nil if nobody waits for that.
type ending struct {
	trip  *machine.Trip
	began time.Time
	done  chan struct{}
	told  chan struct{}
	// here says that whoever decided on it records it, and no lane.
	here bool
}

// wants has the run recorded by whoever does the work. The caller holds mu.
func (r *run) wants(k *work) {
	switch {
	case r.job == nil:
		r.job = make(chan struct{})
		k.runs = append(k.runs, r)
	case !r.again:
		r.again, r.since = true, clocks.Now(r.tree.Clock)
	}
}

// underway returns a channel that is closed when nothing is left to be recorded, nil if nothing is.
func (r *run) underway() (job <-chan struct{}) {
	r.locked(func() { job = r.job })
	return job
}

// waiting reports whether the store does not have everything.
func (r *run) waiting() (waits bool) {
	r.locked(func() { waits = !r.node.Pending.Empty() })
	return waits
}

// retry appends again what is pending, unless that is being done. It holds up a poll only if there is no other
// goroutine, for what is left of its timeout since began.
func (r *run) retry(began time.Time) {
	var k work
	r.locked(func() {
		if r.job == nil && !r.node.Pending.Empty() {
			r.wants(&k)
		}
	})
	k.do(r.tree, began)
}

// missing are the entries that the store does not have, with their events.
func (r *run) missing() (missing []*machine.Entry, events []fold.Event) {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	missing = r.node.Pending.All()
	return missing, eventsOf(missing)
}

// eventsOf are the events of entries. The caller holds mu.
func eventsOf(entries []*machine.Entry) (events []fold.Event) {
	for _, e := range entries {
		events = append(events, e.Events()...)
	}
	return events
}

// missingPauses are the events of pauses that the store does not have, in their order.
func (r *run) missingPauses() []fold.Event {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	return eventsOf(r.node.Pending.Pauses())
}

// stored notes that the store has the entries.
func (r *run) stored(entries []*machine.Entry) {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	r.settle(entries)
}

// settle takes entries that are stored from what is pending. The caller holds mu.
func (r *run) settle(stored []*machine.Entry) {
	for _, e := range stored {
		r.journal.Appended(len(e.Events()))
	}
	r.node.Pending.Settle(stored)
	if r.node.Pending.Empty() {
		r.vain = 0
	}
}

// recorded notes that the store has the events, also when it says so late.
func (r *run) recorded(events ...fold.Event) {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	if r.node.Pending.Empty() { // nearly always
		return
	}
	ids := map[string]bool{}
	for i := range events {
		ids[events[i].ID] = true
	}
	var settled []*machine.Entry
	for _, e := range r.node.Pending.All() {
		for _, event := range e.Events() {
			if ids[event.ID] {
				settled = append(settled, e)
				break
			}
		}
	}
	r.settle(settled)
}

// notStored notes why the store did not take the entries. They are tried again.
func (r *run) notStored(err error, entries ...*machine.Entry) {
	r.locked(func() { r.node.Pending.Fail(err, entries) })
	r.tryLater()
}

// keep keeps events for another try.
func (r *run) keep(err error, events ...fold.Event) {
	e := machine.NewEntry(nil, events...)
	r.locked(func() { r.node.Pending.Put(e) })
	r.notStored(err, e)
}

// flush makes the last try at what could not be recorded.
func (r *run) flush() error {
	r.appendPending(r.tree.Timeout)
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	if r.node.Pending.Empty() {
		return nil
	}
	missing := r.node.Pending.All()
	events := eventsOf(missing)
	return fmt.Errorf("%d of its events are not recorded, the last a %s: %w", len(events), events[len(events)-1].Type,
		missing[len(missing)-1].Err())
}

// appendPending appends what is pending by the time that the store is free, for at most limit.
func (r *run) appendPending(limit time.Duration) {
	if !r.waiting() {
		return
	}
	_, err := journal.Within(r.storeContext(), &r.journal, limit, func(ctx context.Context) (journal.Nothing, error) {
		r.appendAll(ctx)
		return journal.Nothing{}, nil
	})
	if err != nil {
		missing, _ := r.missing()
		r.notStored(err, missing...)
	}
}

// appendAll appends what is pending together. If the store refuses that, it appends each entry by itself, the newest
// first, so that one that is refused for good keeps none of the others from the store, least of all the stop.
func (r *run) appendAll(ctx context.Context) {
	entries, _ := r.missing()
	err := r.appendOnce(ctx, entries)
	if err == nil {
		r.journal.Checkpoint(ctx)
	}
	if err == nil || len(entries) == 1 {
		return
	}
	for i := len(entries) - 1; i >= 0 && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded); i-- {
		err = r.appendOnce(ctx, entries[i:i+1])
	}
}

// appendOnce notes what came of one append, also if the store answers late.
func (r *run) appendOnce(ctx context.Context, entries []*machine.Entry) error {
	var events []fold.Event
	r.locked(func() { events = eventsOf(entries) })
	_, err := journal.Here(func() (journal.Nothing, error) {
		return journal.Nothing{}, r.tree.Store.Append(ctx, events...)
	})
	if err != nil {
		err = fmt.Errorf("append events: %w", err)
		r.notStored(err, entries...)
		return err
	}
	r.stored(entries)
	return nil
}

// append stores events of the run, all or none.
func (r *run) append(events ...fold.Event) error {
	return r.journal.Append(r.storeContext(), events...)
}

// awaitSince waits for what is done on another goroutine, nil for nothing, and gives up at the timeout after began.
func (t *tree) awaitSince(began time.Time, done <-chan struct{}) {
	if done == nil {
		return
	}
	left := t.left(began)
	if left <= 0 {
		return
	}
	ctx, cancel := clocks.WithTimeout(context.Background(), t.Clock, left)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// left is what is left of the timeout for a caller that has waited since began.
func (t *tree) left(began time.Time) time.Duration {
	return t.Timeout - max(clocks.Since(t.Clock, began), 0)
}

// storeContext has the values of the host's context and not its end: what is to be recorded is often why that ended.
func (r *run) storeContext() context.Context { return context.WithoutCancel(r.inner) }

// name draws the name of a fresh window, for who goes on with it without the lock.
func (r *run) name() { r.locked(r.node.Draw) }

// An end is a trip as it is recorded.
type end struct {
	event fold.Event
	own   *record.Cancel
}

func (r *run) endOf(t *machine.Trip) end {
	event, own := r.node.Name.Cancel(t)
	return end{event, own}
}

// unlessKnown decides on the cancel event, unless the store knows better.
func (e *end) unlessKnown(t *machine.Trip) journal.Decide {
	return func(known *fold.Window) []fold.Event {
		if known.TakesBack(&t.Trip) {
			return nil
		}
		return []fold.Event{e.event}
	}
}

// recordTrip appends the event of the trip, unless the store knows better, and returns what the store has then. What
// cannot be read does not hold up a stop. What the store lacks of the run's pauses goes before the event: whoever reads
// that finds why it came when it did.
func (r *run) recordTrip(e *ending, limit time.Duration) (fold.Window, error) {
	r.name()
	end := r.endOf(e.trip)
	done, err := r.journal.Transact(r.storeContext(), limit, r.missingPauses(), end.unlessKnown(e.trip))
	return r.recordedTrip(done, err, &end)
}

// recordedTrip is what the store has after the exchange about a trip. An event that the store did not take is kept.
func (r *run) recordedTrip(done journal.Result, err error, end *end) (fold.Window, error) {
	switch {
	case err != nil:
		err = fmt.Errorf("append cancel event: %w", err)
		r.keep(err, end.event)
		return fold.Window{Stop: end.own}, err
	case done.Kept == nil:
		return *done.Known, nil
	}
	r.recorded(append(done.Before, end.event)...)
	return r.journal.End(done, &end.event, end.own), nil
}

// recordComplete appends the event that the run is complete and returns what the store has then.
func (r *run) recordComplete(t *machine.Trip) (known fold.Window, err error) {
	r.name()
	event := r.node.Name.Complete(t)
	done, err := r.journal.Transact(r.storeContext(), r.tree.Timeout, nil, func(known *fold.Window) []fold.Event {
		if known.Complete() {
			return nil
		}
		return []fold.Event{event}
	})
	if err == nil {
		known, err = r.journal.EndAfter(done)
	}
	if err != nil {
		return fold.Window{}, fmt.Errorf("append complete event: %w", err)
	}
	return known, nil
}

// recordExtension appends the event, unless the window is over, and returns what the store says then. It asks the
// store, because a trip or [Watchdog.Sync] may have found the event there and counted it already. What cannot be read
// does not hold up the extension.
func (r *run) recordExtension(event fold.Event, d time.Duration) (known fold.Window, err error) {
	var before time.Duration
	r.locked(func() { before = r.node.Seen().Extended })
	done, err := r.journal.Transact(r.storeContext(), r.tree.Timeout, nil, func(known *fold.Window) []fold.Event {
		if known.Over() {
			return nil
		}
		return []fold.Event{event}
	})
	switch {
	case err != nil:
		return known, err
	case done.Kept == nil:
		return *done.Known, nil
	}
	r.journal.Appended(1)
	r.checkpointSoon()
	known = r.journal.After(done)
	known.Extended = max(known.Extended, verdict.Sum(before, d))
	return known, nil
}

// checkpointSoon has recorded in the background what the process knows and no checkpoint has, if that is much.
func (r *run) checkpointSoon() {
	if !r.tree.Inline && r.journal.Much() {
		r.checkpointAside()
	}
}

// checkpointAside has a checkpoint written on another goroutine, unless something of the run is being recorded: then
// one is written after that.
func (r *run) checkpointAside() {
	if r.tree.Instant { // nobody has to wait for another goroutine
		r.writeCheckpoint(r.tree.Timeout)
		return
	}
	begins := false
	r.locked(func() {
		if begins = r.job == nil; begins {
			r.job = make(chan struct{})
		}
	})
	if begins {
		go func() {
			defer (&recordable{r: r}).finish() // also if the store ends this goroutine
			r.writeCheckpoint(r.tree.Timeout)
		}()
	}
}

func (r *run) writeCheckpoint(limit time.Duration) {
	r.journal.WriteCheckpoint(r.storeContext(), limit)
}
