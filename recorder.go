package watchdog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// maxPending is how many entries wait for a store that does not take them.
const maxPending = 64

// errNoAnswer says that the record timeout ended an exchange.
var errNoAnswer = errors.New("event store did not answer in time")

// errStoreExited says that the store ended the goroutine that called it.
var errStoreExited = fmt.Errorf("event store: %w", bounded.ErrExited)

// errDropped says that newer events took the place of one that waited for the store.
var errDropped = fmt.Errorf("more than %d wait for the event store: the oldest is dropped", maxPending)

// A recorder is all that a run has to do with its store. Its exchanges do not overlap, so that a store that hangs is
// not asked again while it does, and each lasts at most the timeout. What is decided waits in one line and is appended
// together, so that it costs one exchange however much it is. Only the stop has an exchange of its own.
type recorder struct {
	store   EventStore
	timeout time.Duration
	clock   clock.Clock // the host's; nil is the machine's
	inline  bool        // everything is done on the goroutine of the caller

	spareDue bool // somebody is about to append what is spare; guarded by mu
	mu       sync.Mutex
	gate     chan struct{} // held during an exchange
	tasks    chan struct{} // closed when every task in the background has ended
	pending  []*entry      // what the store does not have yet, oldest first
}

// An entry is what a run has to store of one decision, all of it or nothing: a stop, a directive, a warning. It waits
// from the decision on until the store has it: it is appended again at every poll and at Close, so that a stop is never
// lost silently. The host is told all the same.
type entry struct {
	make     func() []Event // makes the events when they are needed first; nil if they are there
	events   []Event
	stored   bool
	spare    bool        // dropped before the others: what became of a call
	err      error       // of the last try
	failed   func(error) // tells the log that the first try failed; nil if somebody else does
	unpauses bool        // it ends a pause
	opening  *entry      // of that pause; nil if another process opened it
	dropped  bool        // too many waited
	kept     func()      // called when the store has it, with no lock held; nil for nothing
}

func (r *recorder) configure(cfg *Config) {
	r.store, r.timeout, r.clock, r.inline = cfg.Store, cfg.RecordTimeout, cfg.Clock, cfg.PollOnly || cfg.Disabled
	if r.timeout == 0 {
		r.timeout = DefaultRecordTimeout
	}
}

// exchange has one conversation with the store, for at most the timeout or as long as the caller's context lasts. A
// conversation that ignores its context is left behind; what it says later is dropped.
func exchange[T any](caller context.Context, r *recorder, talk func(context.Context) (T, error)) (T, error) {
	return exchangeWithin(caller, r, r.timeout, talk)
}

// exchangeWithin is exchange for a caller that has no more than limit of the timeout left.
func exchangeWithin[T any](
	caller context.Context, r *recorder, limit time.Duration, talk func(context.Context) (T, error),
) (T, error) {
	if r.instant() {
		return storeErr(bounded.Here(func() (T, error) { return talk(caller) }))
	}
	var none T
	if limit <= 0 {
		return none, noAnswer(caller, r.timeout)
	}
	ctx, cancel := clocks.WithTimeout(caller, r.clock, limit)
	defer cancel()
	if !r.enter(ctx) {
		return none, noAnswer(caller, r.timeout)
	}
	if r.inline {
		defer r.leave()
		return storeErr(bounded.Here(func() (T, error) { return talk(ctx) }))
	}
	return converse(caller, ctx, r.timeout, r.leave, talk)
}

// converse talks on a goroutine of its own, which leaves when it has, and waits for it as long as ctx lasts.
func converse[T any](
	caller, ctx context.Context, timeout time.Duration, leave func(), talk func(context.Context) (T, error),
) (T, error) {
	value, err := bounded.Do(ctx, func() (T, error) {
		defer leave()
		return talk(ctx)
	})
	if errors.Is(err, bounded.ErrLeftBehind) {
		var none T
		return none, noAnswer(caller, timeout)
	}
	return storeErr(value, err)
}

// storeErr names the store in the error of a call that did not return. Of a panic it has the type only, because what
// the value says may be a secret.
func storeErr[T any](value T, err error) (T, error) {
	if panicked := (*bounded.PanicError)(nil); errors.As(err, &panicked) {
		err = fmt.Errorf("event store panicked with a %T", panicked.Value)
	} else if errors.Is(err, bounded.ErrExited) {
		err = fmt.Errorf("event store: %w", err)
	}
	return value, err
}

// instant reports that the store answers at once: nobody has to wait for it.
func (r *recorder) instant() bool { return isInstant(r.store) }

func isInstant(store EventStore) bool {
	switch store.(type) {
	case *Memory, nowhere:
		return true
	}
	return false
}

// enter waits for the run's other conversation to end, and reports whether it did before the context.
func (r *recorder) enter(ctx context.Context) bool {
	r.mu.Lock()
	if r.gate == nil {
		r.gate = make(chan struct{}, 1)
	}
	gate := r.gate
	r.mu.Unlock()
	select {
	case gate <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// enterNow is enter for whoever does not wait.
func (r *recorder) enterNow() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate == nil {
		r.gate = make(chan struct{}, 1)
	}
	select {
	case r.gate <- struct{}{}:
		return true
	default:
		return false
	}
}

// busy reports whether the run has another conversation.
func (r *recorder) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.gate) > 0
}

func (r *recorder) leave() { <-r.gate }

// noAnswer is the error of an exchange that came to nothing: its caller ended it, or the timeout did.
func noAnswer(caller context.Context, timeout time.Duration) error {
	if caller.Err() != nil {
		return fmt.Errorf("wait for the event store: %w", bounded.Cause(caller))
	}
	return fmt.Errorf("%w (%v): %w", errNoAnswer, timeout, context.DeadlineExceeded)
}

// nothing is the value of an exchange that only succeeds or fails.
type nothing = struct{}

// append stores events of the run, all or none.
func (r *recorder) append(ctx context.Context, events ...Event) error {
	_, err := exchange(ctx, r, func(ctx context.Context) (nothing, error) {
		return nothing{}, r.store.Append(ctx, events...)
	})
	return err
}

// background runs the task on a goroutine of its own, which Close waits for, and then what comes after it, which nobody
// waits for. A task lasts no longer than one exchange.
func (r *recorder) background(task, after func()) {
	r.mu.Lock()
	earlier, done := r.tasks, make(chan struct{})
	r.tasks = done
	r.mu.Unlock()
	go func() {
		defer func() { // also if the task ends this goroutine
			if earlier != nil {
				<-earlier
			}
			close(done)
			after()
		}()
		task()
	}()
}

// onlyTask begins a task that Close waits for until end is called. It returns nil if another is under way, which end
// would have to wait for.
func (r *recorder) onlyTask() (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks != nil {
		select {
		case <-r.tasks:
		default:
			return nil
		}
	}
	done := make(chan struct{})
	r.tasks = done
	return func() { close(done) }
}

// underway returns a channel that is closed when every task that was begun has ended, nil if they have.
func (r *recorder) underway() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks != nil {
		select {
		case <-r.tasks:
			r.tasks = nil
		default:
		}
	}
	return r.tasks
}

// await returns when every task that was begun has ended, which takes no longer than one exchange.
func (r *recorder) await() {
	if tasks := r.underway(); tasks != nil {
		<-tasks
	}
}

// awaitSince waits for what is done on another goroutine, nil for nothing, and gives up at the timeout after began.
func (r *recorder) awaitSince(began time.Time, done <-chan struct{}) {
	if done == nil {
		return
	}
	left := r.left(began)
	if left <= 0 {
		return
	}
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, left)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// left is what is left of the timeout for a caller that has waited since began.
func (r *recorder) left(began time.Time) time.Duration {
	return r.timeout - max(clocks.Since(r.clock, began), 0)
}

// put has an entry wait for the store. If too many do, the oldest that is not needed is dropped: a run's stop is its last
// entry and so never is.
func (r *recorder) put(e *entry) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, e)
	others := len(r.pending) - slices.IndexFunc(r.pending, func(other *entry) bool { return !other.spare })
	for ; others > maxPending; others-- {
		oldest := slices.IndexFunc(r.pending, func(other *entry) bool {
			return !other.spare && !other.needed() && other != e
		})
		if oldest < 0 {
			break
		}
		r.pending[oldest].dropped, r.pending[oldest].err = true, errDropped
		r.pending = slices.Delete(r.pending, oldest, oldest+1)
	}
	return e
}

// needed reports that the entry must not be dropped: it ends a pause that the store has, or may get, and that would else
// last until its cap. There are no more of those than holds were open. The caller holds mu of the recorder.
func (e *entry) needed() bool {
	return e.unpauses && (e.opening == nil || e.opening.stored || !e.opening.dropped)
}

// keep keeps events for another try.
func (r *recorder) keep(err error, events ...Event) { r.put(&entry{events: events, err: err}) }

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
	r.settle(entries)
	r.mu.Unlock()
	for _, e := range entries {
		if e.kept != nil {
			e.kept()
		}
	}
}

// settle takes entries that are stored from what is pending. The caller holds mu.
func (r *recorder) settle(stored []*entry) {
	for _, e := range stored {
		e.stored = true
	}
	r.pending = slices.DeleteFunc(r.pending, func(e *entry) bool { return e.stored })
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

func (r *recorder) notStored(err error, entries ...*entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		e.err = err
	}
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

// storeContext has the values of the host's context and not its end: what is to be recorded is often why that ended.
func (w *Watchdog) storeContext() context.Context { return context.WithoutCancel(w.inner) }

func (w *Watchdog) append(events ...Event) error {
	return w.recorder.append(w.storeContext(), events...)
}

// A ruling is what the store says of a window: the stop that counts or that it is complete, and how much it was
// extended.
type ruling struct {
	stop     *Stop
	complete bool
	extended time.Duration
	pauses   []verdict.Pause
}

func (r ruling) over() bool { return r.stop != nil || r.complete }

// recordTrip appends the cancel event, unless the store knows better, and returns what the store has then. What cannot
// be read does not hold up the stop.
func (w *Watchdog) recordTrip(t *trip, event Event, own *Stop, limit time.Duration) (ruling, error) {
	ruled, err := w.transact(w.storeContext(), limit, w.unlessKnown(t, &event))
	return w.recordedTrip(ruled, err, event, own)
}

// unlessKnown decides on the cancel event, unless the store knows better.
func (w *Watchdog) unlessKnown(t *trip, event *Event) func(ruling) []Event {
	return func(known ruling) []Event {
		if t.yieldsTo(known, w.extension()) {
			return nil
		}
		return []Event{*event}
	}
}

// recordedTrip is what the store has after the exchange about a trip.
func (w *Watchdog) recordedTrip(ruled transacted, err error, event Event, own *Stop) (ruling, error) {
	if err != nil {
		return ruling{}, fmt.Errorf("append cancel event: %w", err)
	}
	if ruled.kept == nil {
		return ruled.known, nil
	}
	w.recorder.recorded(event)
	return w.keptEnd(*ruled.kept, event, own), nil
}

// yieldsTo reports whether the store knows better than the trip. An extension and a pause take back what they give more
// of, the wall clock's end, and nothing else; that a hold was closed by its own process takes back its cap.
func (t *trip) yieldsTo(known ruling, extended time.Duration) bool {
	more := known.extended > extended || verdict.PausedBefore(known.pauses, t.elapsed) > t.paused
	closed := slices.ContainsFunc(known.pauses, func(p verdict.Pause) bool { return p.Closed && p.ID == t.left })
	return known.over() || t.verdict.Limit == verdict.WallClock && more || closed
}

// keptEnd is what the event says that the store kept as the window's end, which another process can have written first.
func (w *Watchdog) keptEnd(kept, event Event, own *Stop) ruling {
	if bytes.Equal(kept.Payload, event.Payload) {
		return ruling{stop: own}
	}
	h := foldEvents(w.windowID(), []Event{kept})
	if ruled := h.windows[w.startedAt].ruling(); ruled.over() {
		return ruled
	}
	return ruling{stop: own}
}

// recordComplete appends the event that the run is complete and returns what the store has then.
func (w *Watchdog) recordComplete(event Event) (ruling, error) {
	ruled, err := w.transact(w.storeContext(), w.recorder.timeout, func(known ruling) []Event {
		if known.complete {
			return nil
		}
		return []Event{event}
	})
	switch {
	case err == nil && ruled.unread != nil:
		err = fmt.Errorf("read what was kept: %w", ruled.unread)
	case err == nil && !w.rulingAfter(ruled).over():
		_, err = w.checkedRuling([]Event{*ruled.kept})
	}
	if err != nil {
		return ruling{}, fmt.Errorf("append complete event: %w", err)
	}
	return w.rulingAfter(ruled), nil
}

// recordExtension appends the event, unless the window is over, and returns what the store says then. It asks the
// store, because a trip or [Watchdog.Sync] may have found the event there and counted it already. What cannot be read
// does not hold up the extension.
func (w *Watchdog) recordExtension(event Event, d time.Duration) (ruling, error) {
	before := w.extension()
	ruled, err := w.transact(w.storeContext(), w.recorder.timeout, func(known ruling) []Event {
		if known.over() {
			return nil
		}
		return []Event{event}
	})
	if err != nil || ruled.kept == nil {
		return ruled.known, err
	}
	known := w.rulingAfter(ruled)
	known.extended = max(known.extended, verdict.Sum(before, d))
	return known, nil
}

// A transacted is what an exchange about the window came to: what the store knew, and the event that it kept under the
// ID of the one appended, nil if none was. Unread is why it is only taken for kept.
type transacted struct {
	known  ruling
	kept   *Event
	after  *windowExchange // what the store says after it; nil if that is known
	unread error
}

// rulingAfter is what the store says after the exchange.
func (w *Watchdog) rulingAfter(t transacted) ruling {
	if t.after == nil {
		return t.known
	}
	return w.rulingOf(append(t.after.selected, t.after.Kept...))
}

// transact asks the store what is known of the window, appends what is decided then, at most one event, and says what
// the store kept: in one transaction if the store can. What cannot be read is taken for unknown.
// It takes at most limit.
func (w *Watchdog) transact(
	ctx context.Context, limit time.Duration, decide func(known ruling) []Event,
) (transacted, error) {
	return exchangeWithin(ctx, &w.recorder, limit, func(ctx context.Context) (transacted, error) {
		if store, able := unwrapStore[TransactionalStore](w.recorder.store); able {
			return w.transactOnce(ctx, store, decide)
		}
		return w.transactInSteps(ctx, decide)
	})
}

func (w *Watchdog) transactOnce(
	ctx context.Context, store TransactionalStore, decide func(known ruling) []Event,
) (t transacted, err error) {
	x := &windowExchange{}
	x.prepare(w, w.onceIDs(w.startedAt), decide)
	err = store.Transact(ctx, &x.Exchange)
	if err != nil && ctx.Err() == nil { // an event of the run may be unreadable
		return w.appendUnread(ctx, err, decide)
	}
	if err != nil {
		return transacted{}, err
	}
	return x.transacted(), nil
}

// A windowExchange is an exchange about the window of one run, by itself or beside those of other runs.
type windowExchange struct {
	Exchange
	selected []Event
	known    ruling
}

// prepare makes it the exchange of the run whose window has these onceIDs.
func (x *windowExchange) prepare(w *Watchdog, onceIDs []string, decide func(known ruling) []Event) {
	x.Exchange = Exchange{Selection: w.selectionWith(w.startedAt, onceIDs), Decide: func(events []Event) []Event {
		x.selected, x.known = events, w.rulingOf(events)
		return decide(x.known)
	}}
}

// transacted is what an exchange that was carried out came to.
func (x *windowExchange) transacted() transacted {
	t := transacted{known: x.known}
	if len(x.Kept) > 0 {
		t.kept, t.after = &x.Kept[0], x
	}
	return t
}

// appendUnread appends what is decided of a window of which nothing can be read, because of that error.
func (w *Watchdog) appendUnread(
	ctx context.Context, unread error, decide func(known ruling) []Event,
) (t transacted, err error) {
	t.unread = unread
	if events := decide(ruling{}); len(events) > 0 {
		t.kept = &events[0]
		err = w.recorder.store.Append(ctx, events...)
	}
	return t, err
}

func (w *Watchdog) transactInSteps(ctx context.Context, decide func(known ruling) []Event) (t transacted, err error) {
	t.known, _ = w.consult(ctx)
	events := decide(t.known)
	if len(events) == 0 {
		return t, nil
	}
	if err := w.recorder.store.Append(ctx, events...); err != nil {
		return transacted{}, err
	}
	t.kept = &events[0]
	t.unread = w.readKept(ctx, &t)
	return t, nil
}

// readKept reads what the store has after an append.
func (w *Watchdog) readKept(ctx context.Context, t *transacted) error {
	stored, err := w.recorder.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return err
	}
	t.known = w.rulingOf(stored)
	if i := slices.IndexFunc(stored, func(e Event) bool { return e.ID == t.kept.ID }); i >= 0 {
		t.kept = &stored[i]
	}
	return nil
}

// consult reads what was done to the window, by whatever process: ended it, or extended it.
func (w *Watchdog) consult(ctx context.Context) (ruling, error) {
	if store, able := unwrapStore[TransactionalStore](w.recorder.store); able {
		events, err := store.Select(ctx, w.selection(w.startedAt))
		if err != nil {
			return ruling{}, fmt.Errorf("read events: %w", err)
		}
		return w.checkedRuling(events)
	}
	events, err := w.recorder.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return ruling{}, fmt.Errorf("read events: %w", err)
	}
	return w.checkedRuling(events)
}

// rulingOf is what the events say of the window, as far as they can be read.
func (w *Watchdog) rulingOf(events []Event) ruling {
	if len(events) == 0 {
		return ruling{}
	}
	return foldEvents(w.windowID(), events).windows[w.startedAt].ruling()
}

// checkedRuling is [Watchdog.rulingOf], or an error if an event of the window cannot be read.
func (w *Watchdog) checkedRuling(events []Event) (ruling, error) {
	h := foldEvents(w.windowID(), events)
	for _, e := range h.unreadable {
		if h.concerns(e, &window{startedAt: w.startedAt}) {
			return ruling{}, e.err
		}
	}
	return h.windows[w.startedAt].ruling(), nil
}

// recordDirective has the decision and the directive of one trip recorded, atomically.
func (w *Watchdog) recordDirective(d Directive, ids directiveIDs) *entry {
	return w.recorder.put(&entry{
		make: func() []Event { return w.directiveEvents(d, ids) },
		failed: func(err error) {
			w.log().Error("watchdog could not record a directive",
				"run", w.id, "directive", string(d.Kind), "reason", string(d.Reason), "error", err)
		},
	})
}

func (w *Watchdog) recordWarning(warning Warning) *entry {
	return w.recorder.put(&entry{
		make: func() []Event { return []Event{w.warningEvent(warning)} },
		failed: func(err error) {
			w.log().Error("watchdog could not record a warning", "run", w.id, "fraction", warning.Fraction, "error", err)
		},
	})
}

// recordParentEnd records that the parent ended the run, by its error and not by its cause, whose text is the host's.
// It does not wait for the store. The caller may hold mu.
func (w *Watchdog) recordParentEnd() {
	signal := "parent_canceled"
	if errors.Is(w.parent.Err(), context.DeadlineExceeded) {
		signal = "parent_deadline_exceeded"
	}
	var ended []*entry
	w.recorder.background(func() {
		ended = append(ended, w.recorder.put(&entry{
			events: []Event{w.interruptEvent(signal, "")},
			failed: func(err error) {
				w.log().Error("watchdog could not record an interrupt", "run", w.id, "signal", signal, "error", err)
			},
		}))
		w.recorder.appendPending(w.storeContext(), w.recorder.timeout)
	}, func() { w.tellHost(&news{logs: w.recorder.failures(ended)}) })
}

// recordLost records the end of the attempt before, which its own process could not. There is one such event for each
// attempt.
func (w *Watchdog) recordLost(attempt Attempt) {
	e := w.lostEvent(attempt)
	if err := w.append(e); err != nil {
		w.log().Error("watchdog could not record an interrupt", "run", w.id, "signal", lostAttempt, "error", err)
		w.recorder.keep(err, e)
	}
}
