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

// maxPending is how many events wait for a store that does not take them.
const maxPending = 64

// errNoAnswer says that the record timeout ended an exchange.
var errNoAnswer = errors.New("event store did not answer in time")

// errStoreExited says that the store ended the goroutine that called it.
var errStoreExited = fmt.Errorf("event store: %w", bounded.ErrExited)

// A recorder is all that a run has to do with its store. Its exchanges do not overlap, so that a store that hangs is
// not asked again while it does, and each lasts at most the timeout.
type recorder struct {
	store   EventStore
	timeout time.Duration
	clock   clock.Clock // the host's; nil is the machine's
	inline  bool        // everything is done on the goroutine of the caller

	mu      sync.Mutex
	gate    chan struct{} // held during an exchange
	tasks   chan struct{} // closed when every task in the background has ended
	pending *pending      // nil if the store has everything
}

// pending are the stop and the directives that the store does not have yet. The run has ended, and the host was told,
// all the same. They are appended again at every poll and at Close, so that a stop is never lost silently.
type pending struct {
	events   []Event
	err      error // of the last try
	retrying bool
}

func (r *recorder) configure(cfg *Config) {
	r.store, r.timeout, r.clock, r.inline = cfg.Store, cfg.RecordTimeout, cfg.Clock, cfg.PollOnly
	if r.timeout == 0 {
		r.timeout = DefaultRecordTimeout
	}
}

// exchange has one conversation with the store, for at most the timeout or as long as the caller's context lasts. A
// conversation that ignores its context is left behind; what it says later is dropped.
func exchange[T any](caller context.Context, r *recorder, talk func(context.Context) (T, error)) (T, error) {
	if r.instant() {
		return storeErr(bounded.Here(func() (T, error) { return talk(caller) }))
	}
	ctx, cancel := clocks.WithTimeout(caller, r.clock, r.timeout)
	defer cancel()
	var none T
	if !r.enter(ctx) {
		return none, r.noAnswer(caller)
	}
	if r.inline {
		defer r.leave()
		return storeErr(bounded.Here(func() (T, error) { return talk(ctx) }))
	}
	value, err := bounded.Do(ctx, func() (T, error) {
		defer r.leave()
		return talk(ctx)
	})
	if errors.Is(err, bounded.ErrLeftBehind) {
		return none, r.noAnswer(caller)
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
func (r *recorder) instant() bool {
	switch r.store.(type) {
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

func (r *recorder) leave() { <-r.gate }

// noAnswer is the error of an exchange that came to nothing: its caller ended it, or the timeout did.
func (r *recorder) noAnswer(caller context.Context) error {
	if caller.Err() != nil {
		return fmt.Errorf("wait for the event store: %w", bounded.Cause(caller))
	}
	return fmt.Errorf("%w (%v): %w", errNoAnswer, r.timeout, context.DeadlineExceeded)
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

// background runs the task on a goroutine of its own, which Close waits for, and then what comes after it, which Close
// does not wait for.
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

// await returns when every task that was begun has ended.
func (r *recorder) await() {
	r.mu.Lock()
	tasks := r.tasks
	r.mu.Unlock()
	if tasks != nil {
		<-tasks
	}
}

// keep keeps events for another try, the newest if there are too many. A run's stop is its last event and so never
// dropped.
func (r *recorder) keep(err error, events ...Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		r.pending = &pending{}
	}
	all := append(r.pending.events, events...)
	r.pending.events, r.pending.err = all[max(len(all)-maxPending, 0):], err
}

// retry appends again what is pending, without holding up the poll that asks for it. It takes the values of the context
// and not its end.
func (r *recorder) retry(ctx context.Context) {
	r.mu.Lock()
	due := r.pending != nil && !r.pending.retrying
	if due && !r.inline {
		r.pending.retrying = true
	}
	r.mu.Unlock()
	switch {
	case !due:
	case r.inline:
		r.appendPending(ctx)
	default:
		r.background(func() { r.appendPending(ctx) }, func() {})
	}
}

// flush waits for what is being recorded, and makes the last try at what could not be. It takes the values of the
// context and not its end.
func (r *recorder) flush(ctx context.Context) error {
	r.await()
	r.appendPending(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		return nil
	}
	last := r.pending.events[len(r.pending.events)-1]
	return fmt.Errorf("%d of its events are not recorded, the last a %s: %w", len(r.pending.events), last.Type,
		r.pending.err)
}

func (r *recorder) appendPending(ctx context.Context) {
	if len(r.missing()) == 0 {
		return
	}
	_, err := exchange(context.WithoutCancel(ctx), r, func(ctx context.Context) (nothing, error) {
		events := r.missing()
		if err := r.store.Append(ctx, events...); err != nil {
			return nothing{}, fmt.Errorf("append events: %w", err)
		}
		r.recorded(events...)
		return nothing{}, nil
	})
	if err != nil {
		r.failedAgain(err)
	}
}

func (r *recorder) missing() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		return nil
	}
	return slices.Clone(r.pending.events)
}

// recorded notes that the store has the events, also when it says so late.
func (r *recorder) recorded(events ...Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		return
	}
	r.pending.events = slices.DeleteFunc(r.pending.events, func(missing Event) bool {
		return slices.ContainsFunc(events, func(e Event) bool { return e.ID == missing.ID })
	})
	if r.pending.retrying = false; len(r.pending.events) == 0 {
		r.pending = nil
	}
}

func (r *recorder) failedAgain(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending != nil {
		r.pending.err, r.pending.retrying = err, false
	}
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
}

func (r ruling) over() bool { return r.stop != nil || r.complete }

// recordTrip appends the cancel event, unless the store knows better, and returns what the store has then. What cannot
// be read does not hold up the stop.
func (w *Watchdog) recordTrip(t *trip, event Event, own *Stop) (ruling, error) {
	ruled, err := w.transact(w.storeContext(), func(known ruling) []Event {
		if t.yieldsTo(known, w.extension()) {
			return nil
		}
		return []Event{event}
	})
	if err != nil {
		return ruling{}, fmt.Errorf("append cancel event: %w", err)
	}
	if ruled.kept == nil {
		return ruled.known, nil
	}
	w.recorder.recorded(event)
	return w.keptEnd(*ruled.kept, event, own), nil
}

// yieldsTo reports whether the store knows better than the trip. An extension takes back what it gives more of, the
// wall clock's end, and nothing else.
func (t *trip) yieldsTo(known ruling, extended time.Duration) bool {
	return known.over() || t.verdict.Limit == verdict.WallClock && known.extended > extended
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
	ruled, err := w.transact(w.storeContext(), func(known ruling) []Event {
		if known.complete {
			return nil
		}
		return []Event{event}
	})
	switch {
	case err == nil && ruled.unread != nil:
		err = fmt.Errorf("read what was kept: %w", ruled.unread)
	case err == nil && !ruled.known.over():
		_, err = w.checkedRuling([]Event{*ruled.kept})
	}
	if err != nil {
		return ruling{}, fmt.Errorf("append complete event: %w", err)
	}
	return ruled.known, nil
}

// recordExtension appends the event, unless the window is over, and returns what the store says then. It asks the
// store, because a trip or [Watchdog.Sync] may have found the event there and counted it already. What cannot be read
// does not hold up the extension.
func (w *Watchdog) recordExtension(event Event, d time.Duration) (ruling, error) {
	before := w.extension()
	ruled, err := w.transact(w.storeContext(), func(known ruling) []Event {
		if known.over() {
			return nil
		}
		return []Event{event}
	})
	if err != nil || ruled.kept == nil {
		return ruled.known, err
	}
	ruled.known.extended = max(ruled.known.extended, verdict.Sum(before, d))
	return ruled.known, nil
}

// A transacted is what an exchange about the window came to: what the store knows, and the event that it kept under the
// ID of the one appended, nil if none was. Unread is why it is only taken for kept.
type transacted struct {
	known  ruling
	kept   *Event
	unread error
}

// transact asks the store what is known of the window, appends what is decided then, at most one event, and says what
// the store kept: in one transaction if the store can. What cannot be read is taken for unknown.
func (w *Watchdog) transact(ctx context.Context, decide func(known ruling) []Event) (transacted, error) {
	return exchange(ctx, &w.recorder, func(ctx context.Context) (transacted, error) {
		if store, able := unwrapStore[TransactionalStore](w.recorder.store); able {
			return w.transactOnce(ctx, store, decide)
		}
		return w.transactInSteps(ctx, decide)
	})
}

func (w *Watchdog) transactOnce(
	ctx context.Context, store TransactionalStore, decide func(known ruling) []Event,
) (t transacted, err error) {
	var selected []Event
	x := Exchange{Selection: w.selection(w.startedAt), Decide: func(events []Event) []Event {
		selected, t.known = events, w.rulingOf(events)
		return decide(t.known)
	}}
	err = store.Transact(ctx, &x)
	if err != nil && ctx.Err() == nil { // an event of the run may be unreadable
		return w.appendUnread(ctx, err, decide)
	}
	if err != nil {
		return transacted{}, err
	}
	if len(x.Kept) > 0 {
		t.kept = &x.Kept[0]
		t.known = w.rulingOf(append(selected, x.Kept...))
	}
	return t, nil
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

// recordDirective appends the decision and the directive of one trip, atomically. What cannot be recorded is tried
// again. It returns what is to be logged.
func (w *Watchdog) recordDirective(d Directive) (failures []func()) {
	events := w.directiveEvents(d)
	if err := w.append(events...); err != nil {
		w.recorder.keep(err, events...)
		failures = append(failures, func() {
			w.log().Error("watchdog could not record a directive",
				"run", w.id, "directive", string(d.Kind), "reason", string(d.Reason), "error", err)
		})
	}
	return failures
}

// recordWarnings returns what is to be logged.
func (w *Watchdog) recordWarnings(warnings []Warning) (failures []func()) {
	for _, warning := range warnings {
		if err := w.append(w.warningEvent(warning)); err != nil {
			failures = append(failures, func() {
				w.log().Error("watchdog could not record a warning", "run", w.id, "fraction", warning.Fraction, "error", err)
			})
		}
	}
	return failures
}

// recordParentEnd records that the parent ended the run, by its error and not by its cause, whose text is the host's.
func (w *Watchdog) recordParentEnd() {
	signal := "parent_canceled"
	if errors.Is(w.parent.Err(), context.DeadlineExceeded) {
		signal = "parent_deadline_exceeded"
	}
	if err := w.append(w.interruptEvent(signal, "")); err != nil {
		w.log().Error("watchdog could not record an interrupt", "run", w.id, "signal", signal, "error", err)
	}
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
