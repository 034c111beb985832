package watchdog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/unwrap"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// errNoAnswer says that the record timeout ended an exchange.
var errNoAnswer = errors.New("event store did not answer in time")

// errStoreExited says that the store ended the goroutine that called it.
var errStoreExited = fmt.Errorf("event store: %w", bounded.ErrExited)

// A recording is where a session and its layers are recorded, and how.
type recording struct {
	store   EventStore
	timeout time.Duration
	inline  bool // everything is done on the goroutine of the caller
}

func (cfg *Config) recording() recording {
	r := recording{store: cfg.Store, timeout: cfg.RecordTimeout, inline: cfg.PollOnly || cfg.Disabled}
	if r.timeout == 0 {
		r.timeout = DefaultRecordTimeout
	}
	return r
}

// instant reports that the store answers at once: nobody has to wait for it.
func (c *recording) instant() bool {
	switch c.store.(type) {
	case *Memory, nowhere:
		return true
	}
	return false
}

// transactional is the store if it can transact.
func (c *recording) transactional() (TransactionalStore, bool) {
	return unwrap.To[TransactionalStore, EventStore](c.store)
}

// storing is what is under way between a run and its store. The tree's mu guards it. The exchanges of a run do not
// overlap, so that a store that hangs is not asked again while it does, and each lasts at most the timeout. What is
// decided waits in one line and is appended together, so that it costs one exchange however much it is. Only the end
// has an exchange of its own.
type storing struct {
	ending *ending          // that is being recorded
	gate   chan struct{}    // held during an exchange
	job    chan struct{}    // closed when nothing is left to be recorded; nil if nothing is
	since  time.Time        // when there was
	again  bool             // there is more for who is at it
	untold []*machine.Entry // that the host is told of once they were tried
	vain   uint8            // tries, which a lane made since the store had everything
	marks  atomic.Uint32    // wasLeft, isClosed
	folded *knownWindow     // nil while nothing is
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
		r.again, r.since = true, clocks.Now(r.tree.clock.other)
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
func (r *run) missing() (missing []*machine.Entry, events []Event) {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	missing = r.node.Pending.All()
	return missing, r.eventsOf(missing)
}

// lateAfter is how old an event may be when it is stored. Who goes on from a checkpoint reads no older ones than an
// hour, but for an end.
const lateAfter = fold.Lookback / 2

// eventsOf are the events of entries as they are stored now. Those that had to wait for the store too long are dated
// anew, in their order; when they happened stands in their payloads. The caller holds mu.
func (r *run) eventsOf(entries []*machine.Entry) (events []Event) {
	_, able := r.tree.transactional()
	now := clocks.Now(r.tree.clock.other)
	for _, e := range entries {
		for _, event := range e.Events() {
			end := event.Type == EventCancel || event.Type == EventComplete
			if able && !end && !r.node.Begins && now.Sub(event.Timestamp) > lateAfter {
				now = now.Add(time.Microsecond)
				event.Timestamp = record.Truncate(now)
			}
			events = append(events, Event(event))
		}
	}
	return events
}

// missingPauses are the events of pauses that the store does not have, in their order.
func (r *run) missingPauses() []Event {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	return r.eventsOf(r.node.Pending.Pauses())
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
		r.appended(len(e.Events()))
	}
	r.node.Pending.Settle(stored)
	if r.node.Pending.Empty() {
		r.vain = 0
	}
}

// recorded notes that the store has the events, also when it says so late.
func (r *run) recorded(events ...Event) {
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
func (r *run) keep(err error, events ...Event) {
	e := newEntry(nil, events...)
	r.locked(func() { r.node.Pending.Put(e) })
	r.notStored(err, e)
}

func newEntry(lost *machine.Loss, events ...Event) *machine.Entry {
	all := make([]machine.Event, len(events))
	for i := range events {
		all[i] = machine.Event(events[i])
	}
	return machine.NewEntry(lost, all...)
}

// flush makes the last try at what could not be recorded.
func (r *run) flush() error {
	r.appendPending(r.tree.timeout)
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	if r.node.Pending.Empty() {
		return nil
	}
	missing := r.node.Pending.All()
	events := r.eventsOf(missing)
	return fmt.Errorf("%d of its events are not recorded, the last a %s: %w", len(events), events[len(events)-1].Type,
		missing[len(missing)-1].Err())
}

// appendPending appends what is pending by the time that the store is free, for at most limit.
func (r *run) appendPending(limit time.Duration) {
	if !r.waiting() {
		return
	}
	_, err := exchangeWithin(r.storeContext(), r, limit, func(ctx context.Context) (nothing, error) {
		r.appendAll(ctx)
		return nothing{}, nil
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
		r.checkpoint(ctx)
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
	var events []Event
	r.locked(func() { events = r.eventsOf(entries) })
	_, err := storeErr(bounded.Here(func() (nothing, error) { return nothing{}, r.tree.store.Append(ctx, events...) }))
	if err != nil {
		err = fmt.Errorf("append events: %w", err)
		r.notStored(err, entries...)
		return err
	}
	r.stored(entries)
	return nil
}

// append stores events of the run, all or none.
func (r *run) append(events ...Event) error {
	_, err := exchange(r.storeContext(), r, func(ctx context.Context) (nothing, error) {
		err := r.tree.store.Append(ctx, events...)
		if err == nil {
			r.locked(func() { r.appended(len(events)) })
			r.checkpoint(ctx)
		}
		return nothing{}, err
	})
	return err
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
	ctx, cancel := clocks.WithTimeout(context.Background(), t.clock.other, left)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// left is what is left of the timeout for a caller that has waited since began.
func (t *tree) left(began time.Time) time.Duration {
	return t.timeout - max(clocks.Since(t.clock.other, began), 0)
}

// storeContext has the values of the host's context and not its end: what is to be recorded is often why that ended.
func (r *run) storeContext() context.Context { return context.WithoutCancel(r.inner) }

// name draws the name of a fresh window, for who goes on with it without the lock.
func (r *run) name() { r.locked(r.node.Draw) }

// An end is a trip as it is recorded.
type end struct {
	event Event
	own   *record.Cancel
}

func (r *run) endOf(t *machine.Trip) end {
	event, own := r.node.Name.Cancel(t)
	return end{Event(event), own}
}

// unlessKnown decides on the cancel event, unless the store knows better.
func (e *end) unlessKnown(t *machine.Trip) func(*fold.Window) []Event {
	return func(known *fold.Window) []Event {
		if known.TakesBack(&t.Trip) {
			return nil
		}
		return []Event{e.event}
	}
}

// recordTrip appends the event of the trip, unless the store knows better, and returns what the store has then. What
// cannot be read does not hold up a stop. What the store lacks of the run's pauses goes before the event: whoever reads
// that finds why it came when it did.
func (r *run) recordTrip(e *ending, limit time.Duration) (fold.Window, error) {
	end := r.endOf(e.trip)
	done, err := r.transact(r.storeContext(), limit, r.missingPauses(), end.unlessKnown(e.trip))
	return r.recordedTrip(done, err, &end)
}

// recordedTrip is what the store has after the exchange about a trip. An event that the store did not take is kept.
func (r *run) recordedTrip(done transacted, err error, end *end) (fold.Window, error) {
	switch {
	case err != nil:
		err = fmt.Errorf("append cancel event: %w", err)
		r.keep(err, end.event)
		return fold.Window{Stop: end.own}, err
	case done.kept == nil:
		return *done.known, nil
	}
	r.recorded(append(done.before, end.event)...)
	return r.keptEnd(*done.kept, end.event, end.own), nil
}

// recordComplete appends the event that the run is complete and returns what the store has then.
func (r *run) recordComplete(t *machine.Trip) (known fold.Window, err error) {
	event := Event(r.node.Name.Complete(t))
	done, err := r.transact(r.storeContext(), r.tree.timeout, nil, func(known *fold.Window) []Event {
		if known.Complete() {
			return nil
		}
		return []Event{event}
	})
	if err == nil {
		known, err = r.knownEnd(done)
	}
	if err != nil {
		return fold.Window{}, fmt.Errorf("append complete event: %w", err)
	}
	return known, nil
}

// knownEnd is what the store knows after an exchange that gave the window an end, or why that cannot be read.
func (r *run) knownEnd(done transacted) (known fold.Window, err error) {
	if done.unread != nil {
		return known, fmt.Errorf("read what was kept: %w", done.unread)
	}
	if known = r.knownAfter(done); !known.Over() {
		_, err = r.checkedKnown(nil, []Event{*done.kept})
	}
	return known, err
}

// recordExtension appends the event, unless the window is over, and returns what the store says then. It asks the
// store, because a trip or [Watchdog.Sync] may have found the event there and counted it already. What cannot be read
// does not hold up the extension.
func (r *run) recordExtension(event Event, d time.Duration) (known fold.Window, err error) {
	var before time.Duration
	r.locked(func() { before = r.node.Seen().Extended })
	done, err := r.transact(r.storeContext(), r.tree.timeout, nil, func(known *fold.Window) []Event {
		if known.Over() {
			return nil
		}
		return []Event{event}
	})
	switch {
	case err != nil:
		return known, err
	case done.kept == nil:
		return *done.known, nil
	}
	r.locked(func() { r.appended(1) })
	r.checkpointSoon()
	known = r.knownAfter(done)
	known.Extended = max(known.Extended, verdict.Sum(before, d))
	return known, nil
}
