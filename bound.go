package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/benbjohnson/clock"
)

// The limits of a [Call]. A host that lets a user choose the limit of a tick (`max_tick_duration_minutes`) takes it from
// [MinTick] to [MaxTick]; [Bound] itself takes any positive duration.
const (
	DefaultTick  = 30 * time.Minute
	MinTick      = time.Minute
	MaxTick      = 60 * time.Minute
	DefaultGrace = 30 * time.Second
)

// The errors of a bounded call, besides the [Overrun].
var (
	// ErrCallExited is the error of a call that ended its goroutine instead of returning, with runtime.Goexit.
	ErrCallExited = errors.New("the call ended its goroutine with runtime.Goexit; let it return instead (t.FailNow calls Goexit too)")
)

// A Call says how [Bound] guards one call. It is copied, so that one can be kept and used for every tick. The zero value is
// a call without a name under the default limits.
type Call struct {
	// Key names the call. While a call is in flight, another with the same key and the same Calls is refused, see [KeyInUse].
	// Empty means that any number may be in flight. A key needs Calls.
	Key string
	// Limit is how long the call may take; then its context ends. Zero means [DefaultTick], [NoLimit] no limit. In a run's
	// context it is never more than the run's [Watchdog.Remaining], as that is when the call begins.
	Limit time.Duration
	// Grace is how long the call has to return once its context has ended; then it is abandoned. Zero means [DefaultGrace],
	// [NoLimit] that Bound waits for as long as it takes.
	Grace time.Duration
	// Calls keeps the keys and the account of abandoned calls; share one between the calls that belong together. Nil keeps none.
	Calls *Calls
	// Release gives back what an abandoned call cannot, such as a lease on the work. It is called exactly once if the call is
	// abandoned and otherwise never, on a goroutine of its own, before the key is free and Bound returns; but Bound
	// waits for it no longer than another Grace. A panic in it is logged.
	Release func()
	// Logger gets what no caller is returned: late ends and panics. Nil means that of the run in the context, or [slog.Default].
	Logger *slog.Logger
	// Clock tells the time and sets the timers; nil is that of the run in the context, or the machine's. It is for tests.
	Clock clock.Clock
}

// Bound does the work under a two-layer cancel and returns what became of it. At the limit (soft) the work's context ends, with
// an [Overrun] as its cause; a grace later (hard) Bound returns although the work has not: it is abandoned, and its late
// result or panic goes to nobody. When ctx ends first, the work has the same grace to return. What ended the work is decided once, and
// its context's cause says the same as the [Outcome]. A panic in the work that was not abandoned is a panic of
// Bound, with a [CallPanic].
//
// Work that has no time left, whose context has ended, or that is refused, is not begun; the outcome says why. Time
// that the machine sleeps does not count. The work cannot be stopped by force: it keeps its goroutine, and what it holds, until it returns.
//
// A call that returns in time costs about what a goroutine and context.WithTimeout cost by hand: one goroutine, one timer.
func Bound[T any](ctx context.Context, call Call, work func(context.Context) (T, error)) Outcome[T] {
	b := &bounded[T]{work: work}
	if layer, err := b.begin(ctx, call); err != nil {
		return Outcome[T]{Err: err, Layer: layer, Limit: b.call.Limit, Grace: b.call.Grace, Note: b.watchdog.LastNote()}
	}
	go b.do()
	how := b.wait()
	if !how.abandoned && b.panicked != nil {
		panic(b.panicked)
	}
	return b.outcome(how)
}

// A bounded is a flight with what it brings back.
type bounded[T any] struct {
	flight
	work   func(context.Context) (T, error)
	result T
}

// do is the goroutine of the call.
func (b *bounded[T]) do() {
	defer func() { b.settle(recover()) }()
	b.result, b.err = b.work(&b.flight)
	b.returned = true
}

// outcome tells what became of a call that was begun. The result of an abandoned one is not looked at: it may come at any moment.
func (b *bounded[T]) outcome(how ending) Outcome[T] {
	o := Outcome[T]{
		Layer: how.layer, Abandoned: how.abandoned, Elapsed: how.elapsed,
		Limit: b.call.Limit, Grace: b.call.Grace, Note: b.watchdog.LastNote(),
	}
	if !how.abandoned {
		o.Result, o.ResultErr = b.result, b.err
	}
	o.Err = b.verdict(how, o.ResultErr, o.Note)
	return o
}

// begin readies the flight. Where the call cannot be begun it returns why, and the layer that is to blame.
func (f *flight) begin(ctx context.Context, call Call) (BoundLayer, error) {
	f.watchdog = FromContext(ctx)
	f.call = call
	f.applyDefaults()
	if err := f.check(call); err != nil {
		return LayerNone, fmt.Errorf("%s was not begun: %w", f.name(), err)
	}
	if ctx.Err() != nil {
		return LayerOutside, fmt.Errorf("%s was not begun: its context has ended: %w", f.name(), outsideCause(ctx))
	}
	f.start = now(f.call.Clock)
	if err := f.shorten(); err != nil {
		return LayerSoft, err
	}
	if err := f.call.Calls.take(f); err != nil {
		return LayerNone, fmt.Errorf("%s was not begun: %w", f.name(), err)
	}
	f.takeOff(ctx)
	return LayerNone, nil
}

func (f *flight) applyDefaults() {
	if f.call.Limit == 0 {
		f.call.Limit = DefaultTick
	}
	if f.call.Grace == 0 {
		f.call.Grace = DefaultGrace
	}
	if f.watchdog != nil && f.call.Clock == nil {
		f.call.Clock = f.watchdog.clock.other
	}
}

// check returns the first flaw of the call as the caller wrote it.
func (f *flight) check(call Call) error {
	switch {
	case call.Limit < 0:
		return fmt.Errorf("%w call: Limit is %v; use a positive duration, 0 for %v, or NoLimit", ErrInvalid, call.Limit, DefaultTick)
	case call.Grace < 0:
		return fmt.Errorf("%w call: Grace is %v; use a positive duration, 0 for %v, or NoLimit", ErrInvalid, call.Grace, DefaultGrace)
	case call.Key != "" && call.Calls == nil:
		return fmt.Errorf("%w call: no one keeps its key; set Call.Calls, to the same *watchdog.Calls for all that share keys", ErrInvalid)
	}
	return nil
}

// shorten leaves the call no more time than the run it belongs to has left.
func (f *flight) shorten() error {
	if !bounds(f.watchdog) {
		return nil
	}
	left := f.watchdog.left()
	if left >= f.call.Limit {
		return nil
	}
	f.call.Limit, f.run = left, f.watchdog.id
	if left <= 0 {
		return &Overrun{Key: f.call.Key, Run: f.run, Layer: LayerSoft, Grace: f.call.Grace, Note: f.watchdog.LastNote()}
	}
	return nil
}

// bounds reports whether what is done in a run is bounded by it. A run that only observes cancels nothing; and of one that has
// ended, a context that lives on is detached, for cleaning up.
func bounds(w *Watchdog) bool { return w != nil && !w.observeOnly && w.inner.Err() == nil }

// name is how errors call the call.
func (f *flight) name() string { return nameCall(f.call.Key) }

func nameCall(key string) string {
	if key == "" {
		return "call"
	}
	return fmt.Sprintf("call %q", key)
}
