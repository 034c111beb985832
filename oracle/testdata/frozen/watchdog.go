package watchdog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/alarm"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/handle"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// The errors of the package. Each method says which of them it wraps.
var (
	// ErrInvalid says that what the caller passed is wrong: a run, a config, a budget, an event, a name. The text says
	// which field, with which value, and what to use. Nothing was changed. The other packages of this module wrap it, too.
	ErrInvalid = errors.New("invalid")
	// ErrParentEnded says that the context was done before the run was attached. New and Resume wrap it, with the
	// context's cause.
	ErrParentEnded = errors.New("parent context has ended")
	// ErrEnded says that the run has ended. Complete, Extend, Interrupt, Hold and Layer wrap it, with the cause of the
	// end. Cancel and Sync wrap it if the run ended without a stop. On a nil Watchdog, Cancel, Extend, Interrupt and Layer
	// wrap it.
	ErrEnded = errors.New("run has ended")
	// ErrComplete says that the host declared the run done, see [Watchdog.Complete]. New wraps it; to go on with such a
	// run is to Resume it. It is the cause of the context of a run that is complete.
	ErrComplete = errors.New("run is complete")
	// ErrClosed is the cause of the run's context after Close ended it.
	ErrClosed = errors.New("watchdog closed")
	// ErrHeld says that a hold with the key is open. Hold and During wrap it.
	ErrHeld = errors.New("already held")
	// ErrFailing says that guards have stopped the run as often in a row as [Config].MaxStops allows. Resume wraps it.
	ErrFailing = errors.New("run fails again and again")
	// ErrUnreadableEvent says that the payload of one of the run's events cannot be understood. New, Resume and Sync wrap
	// it, because they cannot tell whether the run may continue. The text names the event.
	ErrUnreadableEvent = errors.New("unreadable event")
)

// errNoRun is the error of what cannot be done without a run.
var errNoRun error = noRun{}

type noRun struct{}

// Error says that there is no run.
func (noRun) Error() string { return "there is no run: the Watchdog is nil" }

// Unwrap returns [ErrEnded].
func (noRun) Unwrap() error { return ErrEnded }

// A Watchdog guards one run in this process. It ends the run's context when a limit is exceeded, also while the host is
// stuck, records why, and tells the host at its next poll. Make one with [New] or [Resume] and end it with
// [Watchdog.Close]. While armed it is one entry in a timer's list and no goroutine.
//
// All methods are safe for concurrent use. All work on a nil Watchdog, which [FromContext] returns where there is no
// run: it has no limit, it never fires, and what cannot be done without a run returns an error that wraps [ErrEnded].
type Watchdog struct {
	id        string
	lineage   *lineage // nil for a session of its own
	startedAt time.Time
	outer     *Watchdog // the run around a layer
	settings
	recorder recorder

	pulse   atomic.Pointer[pulse] // nil while nothing heeds signals
	trace   *trace                // nil if the host keeps none
	note    atomic.Pointer[string]
	readers atomic.Pointer[readers]
	account atomic.Pointer[account] // nil while nothing is counted

	parent     context.Context
	inner      context.Context
	cancel     context.CancelCauseFunc
	stopParent func() bool

	// quietUntil is when, in monotonic time since the clock's base, a poll has to look closely; 0 is always.
	quietUntil atomic.Int64

	mu       *tree // guards the rest; the order of locks is in lifecycle.go
	clock    runClock
	seen     verdict.Snapshot
	phase    phase
	complete bool      // once ended
	byParent bool      // the parent ended it
	trip     *trip     // while recording
	more     *extras   // nil if there is nothing in them
	tries    *try      // the first of those that are open
	layers   *Watchdog // the first of those that are open
	stop     *Stop     // once fired
	item     alarm.Item[Watchdog]
	timer    clocks.Timer // in place of item if the clock is not the machine's
}

// extras are what few runs have. The run's mutex guards them.
type extras struct {
	attempt Attempt
	keeper  Keeper       // that keeps the run
	given   []given      // the directives that still stand on a ladder
	left    []fold.Pause // those of layers of a process that is gone
	due     []*entry     // what the next look has to record
	failed  failedCompletes
	looper  *looper // nil before the first step
	// resumeInDoubt tells that it was not resumed, and that the store may have the resume all the same.
	resumeInDoubt bool
	busy          busyness
	released      []func()          // what waits for the end of a pause
	command       record.CommandEnd // that its host said
}

// extras are made at the first need. The caller holds mu.
func (w *Watchdog) extras() *extras {
	if w.more == nil {
		w.more = &extras{}
	}
	return w.more
}

// New attaches to a run: it reads the run's events, continues its window where it stands, and guards the run until
// [Watchdog.Close]. If the window has its cancel event already, the watchdog is fired from the start, with the stored
// stop; if its budget is used up, it fires before New returns.
//
// A run that is complete is not watched any more: New wraps [ErrComplete].
//
// Without a Store in the [Config] the run is kept in memory and nobody finds it again: every New begins a run, whose ID
// and start can be left out.
//
// The context is the run's parent: [Watchdog.Context] ends when it ends, which is not a stop. A parent of a type of the
// host's own costs a goroutine until the run ends, as with package context, unless it has the method AfterFunc that
// [context.AfterFunc] asks for. New wraps [ErrInvalid],
// [ErrComplete], [ErrParentEnded] or [ErrUnreadableEvent], or the store's error if the events cannot be read, because
// then New cannot tell whether the run may continue. After an error nothing is guarded and nothing was written.
//
// A watchdog without any limit can never fire; New logs a warning when it makes one.
func New(ctx context.Context, run Run, cfg Config) (*Watchdog, error) {
	if fresh, ok := ctx.(handle.Fresh); ok {
		return begin(fresh.Context, run, &cfg)
	}
	w, err := attach(ctx, run, &cfg, false)
	if err != nil {
		return nil, fmt.Errorf("attach watchdog: %w", err)
	}
	return w, nil
}

// Resume is [New] for when the user asks to go on with a run that a guard cancelled or that is complete. It opens a
// fresh window at this moment, recorded as [EventResume] before Resume returns, so that the run does not stop at once
// for its old window. [Watchdog.StartedAt] is the new start, for the host to persist; a host that crashes before that
// still attaches to the new window. A run that has not ended so continues its window, as with New. If several processes
// resume at once, all get the same window. Without a Store in the [Config] it has nothing to go on with and is New.
//
// Resume returns the errors of New, [ErrFailing] as [Config].MaxStops says, and the store's error if the event cannot
// be recorded. After an error the run is still cancelled, unless the text says that it is resumed or the store was too
// slow to answer and keeps the event after all.
func Resume(ctx context.Context, run Run, cfg Config) (*Watchdog, error) {
	w, err := attach(ctx, run, &cfg, true)
	if err != nil {
		return nil, fmt.Errorf("resume run: %w", err)
	}
	return w, nil
}

// Context returns the run's context, for everything that is done in the run. It ends when a limit is exceeded or
// another guard cancels the run, with the [Stop] as its cause; when the parent ends, with the parent's cause; after
// [Watchdog.Interrupt], with the [Interruption]; after [Watchdog.Complete], with [ErrComplete]; and after
// [Watchdog.Close], with [ErrClosed]. Its deadline is the parent's, because that of the run can be extended. That of a
// nil Watchdog is [context.Background].
func (w *Watchdog) Context() context.Context {
	if w == nil {
		return context.Background()
	}
	return (*runContext)(w)
}

// ID returns the run's ID, a random one where the host gave none. It is empty for a nil Watchdog.
func (w *Watchdog) ID() string {
	if w == nil {
		return ""
	}
	return w.id
}

// Parent returns the ID of the run that this one is a layer of, empty for a run of its own and a nil Watchdog.
func (w *Watchdog) Parent() string {
	if w == nil {
		return ""
	}
	return w.lineage.parent()
}

// StartedAt returns the start of the window, in UTC to the microsecond. After [Resume] it can be later than what the
// host passed: persist it. It is zero for a nil Watchdog.
func (w *Watchdog) StartedAt() time.Time {
	if w == nil {
		return time.Time{}
	}
	return w.startedAt
}

// Fired reports whether a limit or another guard stopped the run, and which: the host asks at its phase boundaries. It
// reads the clock, so that it is right also without a timer (see [Config].PollOnly). While a stop is being recorded it
// waits for that, at most the record timeout, and it tries again to record what could not be. One that finds a silence
// too long waits for [Config].Busy before, at most [BusyTimeout]. A run that ended in another way has not fired, nor
// has a nil Watchdog. A run that has not fired costs little more than reading the clock, and no allocation.
func (w *Watchdog) Fired() (StopReason, bool) {
	if w == nil || w.quiet() {
		return "", false
	}
	if stop := w.poll(); stop != nil {
		return stop.Code, true
	}
	return "", false
}

// Stop returns the run's stop, nil while it has not fired. It looks as [Watchdog.Fired] does. A nil Watchdog has none.
func (w *Watchdog) Stop() *Stop {
	if w == nil || w.quiet() {
		return nil
	}
	return w.poll()
}

// Elapsed returns the real time since the window's start, with the time that the process was not running, the machine
// slept and holds stopped the wall clock. It never runs back. It is 0 for a nil Watchdog.
func (w *Watchdog) Elapsed() time.Duration {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock.elapsed()
}

// Remaining returns how long the run may still work: what is left of its wall clock, until the [DirectiveWrapUp] less
// the reserve, at least 0, and 0 once it has ended. Without a wall-clock limit, and for a nil Watchdog, it is
// [NoLimit].
func (w *Watchdog) Remaining() time.Duration {
	if w == nil {
		return NoLimit
	}
	return w.remainingAt(time.Now())
}

// remainingAt is Remaining for who has just read the machine's clock.
func (w *Watchdog) remainingAt(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != running {
		return 0
	}
	if w.disabled {
		return NoLimit
	}
	return verdict.Remaining(w.limits.Limits, w.seen, w.clock.elapsedAt(now))
}

// Close ends the watching. A run that has not ended otherwise ends by it, without an event; its context's cause is
// [ErrClosed]. If an event of the run could not be recorded yet, or what a call used beyond its admission could not be
// charged ([Charge.Settle]), Close tries once more and returns the error if that fails; it can be called again to try
// again, and nothing else does any more. Otherwise, and for a nil Watchdog, it returns nil. It waits at most twice the
// record timeout.
func (w *Watchdog) Close() error {
	if w == nil {
		return nil
	}
	w.recorder.stopTries()
	if w.closeAtOnce() {
		return nil
	}
	if err := w.close(clocks.Now(w.clock.other)); err != nil {
		return fmt.Errorf("close watchdog of run %s: %w", w.id, err)
	}
	return nil
}

func (w *Watchdog) close(began time.Time) (err error) {
	w.endRunning(ErrClosed)
	told := w.tellTrace()
	spending := clocks.Now(w.clock.other)
	spent := w.closeSpend()
	defer func() {
		w.recorder.awaitSince(spending, spent)
		err = errors.Join(err, w.unpaid())
	}()
	w.recorder.awaitSince(began, w.recorder.underway())
	defer w.tellKeeper(began)
	if w.recorder.waiting() {
		if err := w.recorder.flush(w.storeContext()); err != nil {
			return err
		}
	}
	w.recorder.awaitSince(began, told)
	return nil
}

// closeAtOnce ends a run that has nothing to wait for and nobody to tell, and reports whether it did.
func (w *Watchdog) closeAtOnce() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	holds := w.seen.Signs != nil && w.seen.Signs.Holds.Len() > 0
	if w.phase != running || holds || w.more != nil || w.stopParent != nil || w.trace != nil || w.account.Load() != nil {
		return false
	}
	if !w.caughtUp() || w.recorder.underway() != nil || w.endWithParent() {
		return false
	}
	w.end(ErrClosed)
	return true
}
