package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/alarm"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// DefaultRecordTimeout is how long a call to the store may take where the [Config] does not say.
const DefaultRecordTimeout = 5 * time.Second

// The errors of a [Watchdog] and of what makes one.
var (
	// ErrInvalid is wrapped by every error about what the caller passed: a run, a config, a budget, an event, a name. The text says which field
	// is wrong, with which value, and what to use. Nothing was changed. The other packages of this module wrap it, too.
	ErrInvalid = errors.New("invalid")
	// ErrParentEnded is wrapped, with the parent's cause, by what [New] and [Resume] return when the context has ended already.
	ErrParentEnded = errors.New("parent context has ended")
	// ErrEnded is wrapped, with the cause of the end, by what [Watchdog.Extend], [Watchdog.Interrupt], [Watchdog.Hold] and [Watchdog.Layer]
	// return when the run has ended, and [Watchdog.Cancel] and [Watchdog.Sync] when it has ended otherwise than by a stop.
	ErrEnded = errors.New("run has ended")
	// ErrClosed is the cause of the run's context after [Watchdog.Close] ended it.
	ErrClosed = errors.New("watchdog closed")
)

// A Config says how a run is guarded. It is copied; changing it later changes nothing.
type Config struct {
	// Store keeps the events. It must be set; a [Memory] does where nothing need outlive the process.
	Store EventStore
	// Budget holds the limits. The zero value is the default of each.
	Budget Budget
	// RecordTimeout bounds each exchange with the store, and so how much later than its limit a run ends when the store hangs. Zero
	// means [DefaultRecordTimeout].
	RecordTimeout time.Duration
	// PollOnly makes the watchdog do everything on the goroutine that calls it: no timer is set, and limits are looked at only
	// when [Watchdog.Fired] or another method is called. A store that does not return when its context ends then holds its caller.
	PollOnly bool
	// ObserveOnly makes the watchdog decide and record everything and cancel nothing: what would have been a cancel is an
	// [EventWarning] and a [Directive] that say so, and the run goes on.
	ObserveOnly bool
	// Kinds classify the host's own kinds of event for [Watchdog.Observe].
	Kinds Kinds
	// OnSignal is called with everything that the decision heeds, in its order, for a trace that [Replay] takes. It is called under a lock: it must be quick
	// and must not call the watchdog. With it signals cost a lock each. Nil keeps no trace.
	OnSignal func(Signal)
	// Keeper, where set, keeps the run where others can see that it lives, such as a [github.com/seed62658d38/watchdog/session.Keeper]. Layers are not kept.
	Keeper Keeper
	// RecordInterrupts makes the end of the parent context an [EventInterrupt], recorded after the run has ended.
	RecordInterrupts bool
	// OnWarning is called once for each warning of this watchdog, after its event was recorded or failed to be: on a
	// goroutine of its own, or with PollOnly on the caller's. A panic in it is logged.
	OnWarning func(Warning)
	// Logger gets what no caller is returned: stops, warnings, and events that could not be recorded. Nil means [slog.Default].
	Logger *slog.Logger
	// Clock tells the time and sets the timer; nil is the machine's. It is for tests. Where it has a method Uptime()
	// time.Duration, a count that never goes back and goes on while the machine sleeps, elapsed time is taken from that;
	// otherwise from Now, steps back left out.
	Clock clock.Clock
}

// A Watchdog guards one run in this process: it ends the run's context when a limit is exceeded, also while the host is stuck,
// records why, and tells the host at its next poll. Make one with [New] or [Resume] and end it with
// [Watchdog.Close]. While armed it is one entry in a timer's list and no goroutine.
//
// All methods are safe for concurrent use.
type Watchdog struct {
	id, parentID  string
	startedAt     time.Time
	limits        *verdict.Limits // shared by runs of the same budget
	reserve       time.Duration
	holdCap       time.Duration
	recordTimeout time.Duration
	store         EventStore
	logger        *slog.Logger
	onWarning     func(Warning)
	pollOnly      bool
	recordsParent bool
	observeOnly   bool
	outer         *Watchdog // the run around a layer
	classes       *classes  // of the host's events
	onSignal      func(Signal)
	pulse         *pulse // nil where nothing heeds signals
	attempt       Attempt
	note          atomic.Pointer[string]
	readers       atomic.Pointer[readers]

	parent     context.Context
	inner      context.Context
	cancel     context.CancelCauseFunc
	stopParent func() bool

	// quietUntil is when, in monotonic time since the clock's base, a poll has to look closely; 0 is always.
	quietUntil atomic.Int64

	mu         sync.Mutex
	clock      runClock
	seen       verdict.Snapshot
	phase      phase
	trip       *trip         // while recording
	stop       *Stop         // once fired
	unrecorded *unrecorded   // its event, while the store does not have it
	gate       chan struct{} // held during an exchange with the store
	underway   chan struct{} // closed when every recording in the background has ended
	item       alarm.Item[Watchdog]
	timer      timer // in place of item where the clock is not the machine's
}

// A phase is where a run stands in its life. It goes on only, but for a trip that an extension takes back.
type phase uint8

const (
	running   phase = iota
	recording       // a limit was exceeded, its event is being written
	ended           // fired, closed, interrupted, or ended by its parent
)

// New attaches to a run: it reads the run's events, takes up its window where it stands, and guards the run until
// [Watchdog.Close]. If the window has its cancel event already, the watchdog is fired from the start, with the stored stop; if its
// budget is used up, it fires before New returns.
//
// The context is the run's parent: [Watchdog.Context] ends when it ends, which is not a stop. New wraps an error of
// the [Run], the [Budget] or the [Config]; [ErrParentEnded]; the store's error where the events cannot be read, because then
// it is not known whether the run may go on; or [ErrUnreadableEvent]. After an error nothing is guarded and nothing was written.
//
// A watchdog without any limit can never fire; New logs a warning when it makes one.
func New(ctx context.Context, run Run, cfg Config) (*Watchdog, error) {
	w, err := attach(ctx, run, &cfg, nil, false)
	if err != nil {
		return nil, fmt.Errorf("attach watchdog: %w", err)
	}
	return w, nil
}

// Resume is [New] for when the user asks to go on with a run that a guard cancelled: it opens a fresh window at this
// moment, recorded as [EventResume] before Resume returns, so that the run does not stop at once for its old window.
// [Watchdog.StartedAt] is the new start, for the host to persist; a host that did not get to that still attaches to the new window. A
// run that was not cancelled continues its window, as with New. Of several processes that resume at once all get the same window.
//
// Besides the errors of New it returns the store's error when the event cannot be recorded; the run is then still cancelled.
func Resume(ctx context.Context, run Run, cfg Config) (*Watchdog, error) {
	w, err := attach(ctx, run, &cfg, nil, true)
	if err != nil {
		return nil, fmt.Errorf("resume run: %w", err)
	}
	return w, nil
}

// Context returns the run's context, for everything that is done in the run. It ends when a limit is exceeded
// or another guard cancels the run, with the [Stop] as its cause; when the parent ends, with the parent's cause; after [Watchdog.Interrupt], with the
// [Interruption]; and after [Watchdog.Close], with [ErrClosed]. Its deadline is the parent's: that of the run may be extended.
func (w *Watchdog) Context() context.Context { return (*runContext)(w) }

// ID returns the run's ID.
func (w *Watchdog) ID() string { return w.id }

// StartedAt returns the start of the window, in UTC to the microsecond. After [Resume] it can be later than what the
// host passed: persist it.
func (w *Watchdog) StartedAt() time.Time { return w.startedAt }

// Fired reports whether the run was stopped, by one of its limits or another guard, and by which: the host asks at its phase boundaries. It looks at
// the clock, so that it is right also where no timer is (see [Config].PollOnly). While a stop is being recorded
// it waits for that, at most the record timeout; it tries again to record what could not be. A run that ended in another way
// has not fired. Not fired costs little more than reading the clock, and no allocation.
func (w *Watchdog) Fired() (StopReason, bool) {
	if w.quiet() {
		return "", false
	}
	if stop := w.poll(); stop != nil {
		return stop.Code, true
	}
	return "", false
}

// Stop returns the run's stop, nil while it has not fired. It asks as [Watchdog.Fired] does.
func (w *Watchdog) Stop() *Stop {
	if w.quiet() {
		return nil
	}
	return w.poll()
}

// Elapsed returns the real time since the window's start, with the time that the process was not running and the
// machine slept. It never runs back.
func (w *Watchdog) Elapsed() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock.elapsed()
}

// Remaining returns how long the run may still work: what is left of its wall clock less the reserve, at
// least 0, and 0 once it has ended. Without a wall-clock limit it is [NoLimit].
func (w *Watchdog) Remaining() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != running {
		return 0
	}
	left := verdict.Remaining(*w.limits, w.seen, w.clock.elapsed())
	if left == NoLimit {
		return NoLimit
	}
	return max(left-w.reserve, 0)
}

// Close ends the watching. A run that has not ended otherwise ends by it, without an event; its context's cause is
// [ErrClosed]. If the run was stopped and the stop could not be recorded yet, Close tries once more and returns the
// error if it never succeeded; it can be called again to try again. Otherwise it returns nil. It waits at most twice the record timeout.
func (w *Watchdog) Close() error {
	w.endRunning(ErrClosed)
	return w.flush()
}

// endRunning ends the run with the cause unless it has ended, and reports whether it did.
func (w *Watchdog) endRunning(cause error) bool {
	return w.whileRunning(func() { w.end(cause) })
}

// whileRunning makes the change, holding mu, unless the run has ended, waiting for a stop that is being recorded. It reports whether it did.
func (w *Watchdog) whileRunning(change func()) bool {
	for {
		w.mu.Lock()
		underway, open := w.trip, w.phase == running && !w.endWithParent()
		if open {
			change()
		}
		w.mu.Unlock()
		if underway == nil {
			return open
		}
		<-underway.done
	}
}

// end moves a run that is not fired to its end. The caller holds mu and has seen it running.
func (w *Watchdog) end(cause error) {
	w.traceEnd()
	w.phase = ended
	w.disarm()
	w.cancel(cause)
}
