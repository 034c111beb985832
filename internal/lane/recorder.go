// Package lane records what runs have decided: their ends, and what waits beside that, in batches of the runs of one
// store, by a time-out, and again later if the store did not take it.
//
// A [Recorder] is that of one run. What it has to record is in the run's machine, under the lock of the run's tree. The
// workers of a lane record for all runs of a store, and one timer for all lanes tries again. With Inline there is
// neither: whoever calls carries, and nothing else differs.
//
// Here, and nowhere else, stands what becomes of a record that the store refuses, does not answer or loses, and how
// long anybody waits for it. The package decides nothing about a run, and calls the host only by [Run].
package lane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// A Run is a run's driver, as the lanes need it. Lock and Unlock are those of the run's tree.
type Run interface {
	Lock()
	Unlock()
	Machine() *machine.Node
	// Values is a context with the values of the host's, without its end: what is to be recorded is often why that ended.
	Values() context.Context
	// Conclude makes what the store knows of the window what every reader sees. The error is why the store does not have
	// the run's end. Somebody else tells the host.
	Conclude(e *Ending, known *fold.Window, err error)
	// Tried has the host told of entries whose record was tried. The caller holds the lock.
	Tried(entries []*machine.Entry)
	// Tell tells the host what it is still to be told: here, or what may block on goroutines of its own. Then it returns
	// what is to be logged, nil for nothing.
	Tell(here bool) (log func())
	// Closed reports whether the host has closed the run, or one around it.
	Closed() bool
}

// A Recorder is what is under way between a run and its store. The exchanges of a run do not overlap, so that a store
// that hangs is not asked again while it does, and each lasts at most the time-out. What is decided waits in one line
// and is appended together, so that it costs one exchange however much it is. Only the end has an exchange of its own.
type Recorder struct {
	journal.Journal
	run Run

	// The lock of the run guards the rest.
	ending *Ending       // that is being recorded
	tried  *tried        // nil before there was something to record
	marks  atomic.Uint32 // wasLeft, isClosed
}

// tried is what is under way of a run that has, or had, something to record.
type tried struct {
	job    chan struct{}    // closed when nothing is left to be recorded; nil if nothing is
	since  time.Time        // when there was
	untold []*machine.Entry // that the host is told of once they were tried
	again  bool             // there is more for who is at it
	vain   uint8            // tries, which a lane made since the store had everything
}

// underway is made at the first need. The caller holds the lock.
func (r *Recorder) underway() *tried {
	if r.tried == nil {
		r.tried = &tried{}
	}
	return r.tried
}

// begun reports whether somebody is at it. The caller holds the lock.
func (r *Recorder) begun() bool { return r.tried != nil && r.tried.job != nil }

// An Ending is the run's end while it is being recorded.
type Ending struct {
	Trip  *machine.Trip
	Began time.Time
	// Done is closed when the run has its end, or runs on because it was given more time; Told when the host was told of
	// it, nil if nobody waits for that.
	Done, Told chan struct{}
	// Here says that whoever decided on it records it, and no lane.
	Here bool
}

// Open has the recorder be that of a run.
func (r *Recorder) Open(place *journal.Place, run Run) {
	r.run = run
	r.Journal.Open(place, &run.Machine().Name)
}

func (r *Recorder) locked(call func()) {
	r.run.Lock()
	defer r.run.Unlock()
	call()
}

// pending is what the store does not have. The caller holds the lock.
func (r *Recorder) pending() *machine.Pending { return &r.run.Machine().Pending }

// Ending is the end that is being recorded, nil if none is. The caller holds the lock.
func (r *Recorder) Ending() *Ending { return r.ending }

// End notes the end that is to be recorded, or with nil that it was. The caller holds the lock.
func (r *Recorder) End(e *Ending) { r.ending = e }

// Add has the host told of an entry once its record was tried. The caller holds the lock.
func (r *Recorder) Add(e *machine.Entry) {
	t := r.underway()
	t.untold = append(t.untold, e)
}

// Want notes that there is something to record, and reports whether the caller has to have it recorded: nobody is at
// it. The caller holds the lock.
func (r *Recorder) Want() (begin bool) {
	switch t := r.underway(); {
	case t.job == nil:
		t.job = make(chan struct{})
		return true
	case !t.again:
		t.again, t.since = true, clocks.Now(r.Place().Clock)
	}
	return false
}

// WantAgain is Want for what was tried before, unless somebody is at it.
func (r *Recorder) WantAgain() (begin bool) {
	r.run.Lock()
	defer r.run.Unlock()
	return !r.begun() && !r.pending().Empty() && r.Want()
}

// Behind reports whether the store lacks something, or is being asked. The caller holds the lock.
func (r *Recorder) Behind() bool { return r.begun() || !r.pending().Empty() }

// Underway returns a channel that is closed when nothing is left to be recorded, nil if nothing is.
func (r *Recorder) Underway() (job <-chan struct{}) {
	r.locked(func() {
		if r.tried != nil {
			job = r.tried.job
		}
	})
	return job
}

// Waiting reports whether the store does not have everything.
func (r *Recorder) Waiting() (waits bool) {
	r.locked(func() { waits = !r.pending().Empty() })
	return waits
}

func (r *Recorder) missing() (missing []*machine.Entry, events []event.Event) {
	r.run.Lock()
	defer r.run.Unlock()
	missing = r.pending().All()
	return missing, r.eventsOf(missing)
}

// lateAfter is how old an event may be when it is stored. A process that has read the window reads no events of more
// than an hour before, but for an end.
const lateAfter = fold.Lookback / 2

// eventsOf are the events of entries as they are stored now. Those that had to wait for the store too long are dated
// anew, in their order; when they happened stands in their payloads. The caller holds the lock.
func (r *Recorder) eventsOf(entries []*machine.Entry) (events []event.Event) {
	for _, e := range entries {
		events = append(events, e.Events()...)
	}
	if len(events) == 0 || r.run.Machine().Begins || !r.Place().Store.Transacts() { // it is read whole
		return events
	}
	now := clocks.Now(r.Place().Clock)
	for i := range events {
		e := &events[i]
		end := e.Type == event.Cancel || e.Type == event.Complete
		if !end && now.Sub(e.Timestamp) > lateAfter {
			now = now.Add(time.Microsecond)
			e.Timestamp = event.Truncate(now)
		}
	}
	return events
}

func (r *Recorder) missingPauses() (events []event.Event) {
	r.locked(func() { events = r.eventsOf(r.pending().Pauses()) })
	return events
}

func (r *Recorder) stored(entries []*machine.Entry) {
	r.locked(func() { r.settle(entries) })
}

// settle takes entries that are stored from what is pending. The caller holds the lock.
func (r *Recorder) settle(stored []*machine.Entry) {
	for _, e := range stored {
		r.Appended(len(e.Events()))
	}
	r.pending().Settle(stored)
	if r.pending().Empty() {
		r.underway().vain = 0
	}
}

// recorded notes that the store has an event and those before it, also when it says so late.
func (r *Recorder) recorded(before []event.Event, stored *event.Event) {
	r.run.Lock()
	defer r.run.Unlock()
	if r.pending().Empty() { // nearly always
		return
	}
	ids := map[string]bool{stored.ID: true}
	for i := range before {
		ids[before[i].ID] = true
	}
	var settled []*machine.Entry
	for _, e := range r.pending().All() {
		for _, stored := range e.Events() {
			if ids[stored.ID] {
				settled = append(settled, e)
				break
			}
		}
	}
	r.settle(settled)
}

// notStored notes why the store did not take the entries. They are tried again.
func (r *Recorder) notStored(err error, entries ...*machine.Entry) {
	r.locked(func() { r.pending().Fail(err, entries) })
	r.TryLater()
}

// Keep keeps events for another try.
func (r *Recorder) Keep(err error, events ...event.Event) {
	e := machine.NewEntry(nil, events...)
	r.locked(func() { r.pending().Put(e) })
	r.notStored(err, e)
}

// AppendOrKeep appends an event, and keeps it for another try if that fails.
func (r *Recorder) AppendOrKeep(ctx context.Context, e event.Event) error {
	err := r.Append(ctx, e)
	if err != nil {
		r.Keep(err, e)
	}
	return err
}

// Flush makes the last try at what could not be recorded.
func (r *Recorder) Flush() error {
	r.appendPending(r.Place().Timeout)
	r.run.Lock()
	defer r.run.Unlock()
	if r.pending().Empty() {
		return nil
	}
	missing := r.pending().All()
	events := r.eventsOf(missing)
	return fmt.Errorf("%d of its events are not recorded, the last a %s: %w", len(events), events[len(events)-1].Type,
		missing[len(missing)-1].Err())
}

// appendPending appends what is pending by the time that the store is free, for at most limit.
func (r *Recorder) appendPending(limit time.Duration) {
	if !r.Waiting() {
		return
	}
	_, err := journal.Within(r.run.Values(), &r.Journal, limit, func(ctx context.Context) (journal.Nothing, error) {
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
func (r *Recorder) appendAll(ctx context.Context) {
	entries, _ := r.missing()
	err := r.appendOnce(ctx, entries)
	if err == nil {
		r.ReadAlong(ctx)
	}
	if err == nil || len(entries) == 1 {
		return
	}
	for i := len(entries) - 1; i >= 0 && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded); i-- {
		err = r.appendOnce(ctx, entries[i:i+1])
	}
}

// appendOnce notes what came of one append, also if the store answers late.
func (r *Recorder) appendOnce(ctx context.Context, entries []*machine.Entry) error {
	var events []event.Event
	r.locked(func() { events = r.eventsOf(entries) })
	_, err := journal.Here(func() (journal.Nothing, error) {
		return journal.Nothing{}, r.Place().Store.Append(ctx, events...)
	})
	if err != nil {
		err = fmt.Errorf("append events: %w", err)
		r.notStored(err, entries...)
		return err
	}
	r.stored(entries)
	return nil
}
