package watchdog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/bounded"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/pending"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// errNoAnswer says that the record timeout ended an exchange.
var errNoAnswer = errors.New("event store did not answer in time")

// errStoreExited says that the store ended the goroutine that called it.
var errStoreExited = fmt.Errorf("event store: %w", bounded.ErrExited)

// A recorder is all that a run has to do with its store. Its exchanges do not overlap, so that a store that hangs is
// not asked again while it does, and each lasts at most the timeout. What is decided waits in one line and is appended
// together, so that it costs one exchange however much it is. Only the stop has an exchange of its own.
type recorder struct {
	store   EventStore
	timeout time.Duration
	clock   clock.Clock // the host's; nil is the machine's
	inline  bool        // everything is done on the goroutine of the caller

	spareDue bool  // somebody is about to append what is spare; guarded by mu
	tries    uint8 // which the retrier made since the store had everything; guarded by mu
	mu       sync.Mutex
	marks    atomic.Uint32 // wasLeft, isClosed
	gate     chan struct{} // held during an exchange
	tasks    chan struct{} // closed when every task in the background has ended
	pending  pending.Queue[*entry]
	run      *Watchdog
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

// storeContext has the values of the host's context and not its end: what is to be recorded is often why that ended.
func (w *Watchdog) storeContext() context.Context { return context.WithoutCancel(w.inner) }

func (w *Watchdog) append(events ...Event) error {
	return w.recorder.append(w.storeContext(), events...)
}

// recordTrip appends the cancel event, unless the store knows better, and returns what the store has then. What cannot
// be read does not hold up the stop. What the store lacks of the run's pauses goes before the event: whoever reads that
// finds why it came when it did.
func (w *Watchdog) recordTrip(
	t *trip, event Event, own *record.Cancel, limit time.Duration,
) (fold.Window, error) {
	done, err := w.transact(w.storeContext(), limit, w.recorder.missingPauses(), w.unlessKnown(t, &event))
	return w.recordedTrip(done, err, event, own)
}

// unlessKnown decides on the cancel event, unless the store knows better.
func (w *Watchdog) unlessKnown(t *trip, event *Event) func(*fold.Window) []Event {
	return func(known *fold.Window) []Event {
		found := fold.Trip{
			On: ladderOf(t.verdict, t.usage), Extended: w.extension(), Given: w.givenTo(t.usage),
			Elapsed: t.elapsed, Paused: t.paused, Pauses: t.pauses, LeftOpen: t.left,
		}
		if known.TakesBack(&found) {
			return nil
		}
		return []Event{*event}
	}
}

// recordedTrip is what the store has after the exchange about a trip.
func (w *Watchdog) recordedTrip(
	done transacted, err error, event Event, own *record.Cancel,
) (fold.Window, error) {
	if err != nil {
		return fold.Window{}, fmt.Errorf("append cancel event: %w", err)
	}
	if done.kept == nil {
		return *done.known, nil
	}
	w.recorder.recorded(append(done.before, event)...)
	return w.keptEnd(*done.kept, event, own), nil
}

// recordComplete appends the event that the run is complete and returns what the store has then.
func (w *Watchdog) recordComplete(event Event) (known fold.Window, err error) {
	done, err := w.transact(w.storeContext(), w.recorder.timeout, nil, func(known *fold.Window) []Event {
		if known.Complete() {
			return nil
		}
		return []Event{event}
	})
	if err == nil {
		known, err = w.knownEnd(done)
	}
	if err != nil {
		return fold.Window{}, fmt.Errorf("append complete event: %w", err)
	}
	return known, nil
}

// knownEnd is what the store knows after an exchange that gave the window an end, or why that cannot be read.
func (w *Watchdog) knownEnd(done transacted) (known fold.Window, err error) {
	if done.unread != nil {
		return known, fmt.Errorf("read what was kept: %w", done.unread)
	}
	if known = w.knownAfter(done); !known.Over() {
		_, err = w.checkedKnown([]Event{*done.kept})
	}
	return known, err
}

// recordExtension appends the event, unless the window is over, and returns what the store says then. It asks the
// store, because a trip or [Watchdog.Sync] may have found the event there and counted it already. What cannot be read
// does not hold up the extension.
func (w *Watchdog) recordExtension(event Event, d time.Duration) (known fold.Window, err error) {
	before := w.extension()
	done, err := w.transact(w.storeContext(), w.recorder.timeout, nil, func(known *fold.Window) []Event {
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
	known = w.knownAfter(done)
	known.Extended = max(known.Extended, verdict.Sum(before, d))
	return known, nil
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
