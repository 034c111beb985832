package bound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// The limits of a [Call]. A host that lets a user choose the limit of a tick (`max_tick_duration_minutes`) takes it
// from [MinTick] to [MaxTick]; [Do] itself takes any positive duration.
const (
	DefaultTick  = 30 * time.Minute
	MinTick      = time.Minute
	MaxTick      = 60 * time.Minute
	DefaultGrace = 30 * time.Second
)

// ErrExited is the error of a call that ended its goroutine with runtime.Goexit instead of returning.
var ErrExited = errors.New(
	"the call ended its goroutine with runtime.Goexit; let it return instead (t.FailNow calls Goexit too)")

// A Call says how [Do] guards one call. It is copied, so that one can be kept and used for every tick. The zero value
// is a call without a name under the default limits.
type Call struct {
	// Key names the call, also in a run's [event.Overrun] of it, so it must not hold anything secret. While a call
	// is in flight, another with the same key and the same Calls is refused, see [KeyInUse]. Empty means that any number
	// may be in flight. A key needs Calls.
	Key string
	// Limit is how long the call may take; then its context ends. Zero means [DefaultTick], [watchdog.NoLimit] no limit.
	// In a run's context it is never more than the run's [watchdog.Watchdog.Remaining] when the call begins. It stands
	// still while a hold stops the run's wall clock, and so do the times of the [Outcome]; the deadline of the work's
	// context is the earliest that there can be.
	Limit time.Duration
	// Grace is how long the call has to return once its context has ended; then it is abandoned. Zero means
	// [DefaultGrace], [watchdog.NoLimit] that Do waits for as long as it takes.
	Grace time.Duration
	// Calls keeps the keys and the account of abandoned calls. Share one between the calls that belong together. Nil keeps
	// none.
	Calls *Calls
	// Release gives back what an abandoned call cannot, such as a lease on the work. It is called exactly once if the call
	// is abandoned, and never otherwise, on a goroutine of its own, before the key is free and Do returns. Do waits for it
	// at most another Grace. A panic in it is logged.
	Release func()
	// Logger gets what no caller is returned: late ends and panics. Nil means that of the run in the context, or
	// [slog.Default].
	Logger *slog.Logger
	// Clock tells the time and sets the timers. Nil means that of the run in the context, or the machine's. It is for
	// tests. The limit goes by its Uptime if it has one, see [watchdog.Config].Clock.
	Clock watchdog.Clock
}

// Do does the work under a two-layer cancel and returns what became of it. At the limit (soft) the work's context ends,
// with an [Overrun] as its cause. A grace later (hard) Do returns without the work: it is abandoned, and nobody gets
// its late result or panic. When ctx ends first, the work has the same grace to return. What ended the work is decided
// once: the cause of its context says the same as the [Outcome]. A panic in work that was not abandoned is a panic of
// Do, with a [CallPanic].
//
// Work is not begun if it has no time left, if its context has ended, or if it is refused; the outcome says why. Time
// that the machine sleeps does not count, unless a Clock counts it. The work cannot be stopped by force: it keeps its
// goroutine, and what it holds, until it returns.
//
// A call that returns in time costs about what a goroutine and context.WithTimeout cost by hand: one goroutine, one
// timer.
func Do[T any](ctx context.Context, call Call, work func(context.Context) (T, error)) Outcome[T] {
	b := &typed[T]{work: work}
	if layer, err := b.begin(ctx, call); err != nil {
		return Outcome[T]{Err: err, Layer: layer, Limit: b.call.Limit, Grace: b.call.Grace, Note: b.note()}
	}
	go b.do()
	how := b.wait()
	if !how.abandoned && b.panicked != nil {
		panic(b.panicked)
	}
	return b.outcome(how)
}

// typed is an invocation with what it brings back.
type typed[T any] struct {
	invocation
	work   func(context.Context) (T, error)
	result T
}

// do is the goroutine of the call.
func (b *typed[T]) do() {
	defer func() { b.settle(recover()) }()
	b.result, b.err = b.work(&b.invocation)
	b.returned = true
}

// outcome tells what became of a call that was begun. It does not read the result of an abandoned one, which may come
// at any moment.
func (b *typed[T]) outcome(how ending) Outcome[T] {
	o := Outcome[T]{
		Layer: how.layer, Abandoned: how.abandoned, Elapsed: how.elapsed,
		Limit: b.call.Limit, Grace: b.call.Grace, Note: b.note(),
	}
	if !how.abandoned {
		o.Result, o.ResultErr = b.result, b.err
	}
	o.Err = b.verdict(how, o.ResultErr, o.Note)
	return o
}

// begin prepares the call. If the call cannot begin, it returns why, and the layer that is to blame.
func (i *invocation) begin(ctx context.Context, call Call) (LayerKind, error) {
	i.run, i.outer = watchdog.FromContext(ctx), callOf(ctx)
	i.call = call
	i.call.Limit, i.call.Grace = cmp.Or(call.Limit, DefaultTick), cmp.Or(call.Grace, DefaultGrace)
	if i.run != nil && call.Clock == nil {
		i.call.Clock = i.settings().Clock
	}
	if err := check(call); err != nil {
		return LayerNone, fmt.Errorf("%s was not begun: %w", i.name(), err)
	}
	if ctx.Err() != nil {
		return LayerOutside, fmt.Errorf("%s was not begun: its context has ended: %w", i.name(), bounded.Cause(ctx))
	}
	i.onRecord = i.run != nil && i.run.Context().Err() == nil
	i.start = clocks.Now(i.call.Clock)
	i.uptime, _ = clocks.Uptime(i.call.Clock)
	i.paused, _ = i.standstill(nil)
	if err := i.shorten(); err != nil {
		return LayerSoft, err
	}
	if err := i.call.Calls.take(i); err != nil {
		return LayerNone, fmt.Errorf("%s was not begun: %w", i.name(), err)
	}
	i.arm(ctx)
	return LayerNone, nil
}

// check returns the first flaw of the call as the caller wrote it.
func check(call Call) error {
	switch {
	case call.Limit < 0:
		return fmt.Errorf("%w call: Limit is %v; use a positive duration, 0 for %v, or NoLimit", watchdog.ErrInvalid,
			call.Limit, DefaultTick)
	case call.Grace < 0:
		return fmt.Errorf("%w call: Grace is %v; use a positive duration, 0 for %v, or NoLimit", watchdog.ErrInvalid,
			call.Grace, DefaultGrace)
	case call.Key != "" && call.Calls == nil:
		return fmt.Errorf("%w call: no one keeps its key; set Call.Calls, to the same *bound.Calls for all that share keys",
			watchdog.ErrInvalid)
	}
	return nil
}

// settings are those of the run. There must be one.
func (i *invocation) settings() handle.Settings { return handle.Of(i.run.Context()).Settings() }

// shorten leaves the call no more time than the run that it belongs to has left. That is no limit for a run that ends
// nothing: one that is only observed, or that has ended and whose context was detached for cleaning up.
func (i *invocation) shorten() error {
	if !i.onRecord || i.settings().ObserveOnly {
		return nil
	}
	left := i.run.Remaining()
	if left >= i.call.Limit {
		return nil
	}
	i.call.Limit, i.limitedBy = left, i.run.ID()
	if left <= 0 {
		return &Overrun{Key: i.call.Key, RunID: i.limitedBy, Layer: LayerSoft, Grace: i.call.Grace, Note: i.note()}
	}
	return nil
}

func (i *invocation) name() string { return nameCall(i.call.Key) }

func nameCall(key string) string {
	if key == "" {
		return "call"
	}
	return fmt.Sprintf("call %q", key)
}

// A LayerKind is what ended a call.
type LayerKind string

// The layers.
const (
	// LayerNone says that nothing did: the call returned in time, or was refused.
	LayerNone LayerKind = "none"
	// LayerSoft says that the limit ended the call's context, and that the call returned within the grace.
	LayerSoft LayerKind = "soft"
	// LayerHard says that it did not, and was abandoned.
	LayerHard LayerKind = "hard"
	// LayerOutside says that the context in which the call was made ended before the limit; [Outcome].Abandoned says
	// whether the call returned within the grace.
	LayerOutside LayerKind = "outside"
)

// An Outcome is what became of a call. It is a plain value and the caller's.
type Outcome[T any] struct {
	// Result and ResultErr are what the call returned, also when it did so after the limit, for the host to judge.
	// Both are zero where it did not return; ResultErr is then [ErrExited] if it ended its goroutine.
	Result    T
	ResultErr error
	// Err is nil only if the call returned in time and without an error. Otherwise it is the error that the call returned
	// in time, as it is; or an [*Overrun], which wraps ResultErr; or, after a cancel from outside, an error that wraps the
	// cause, the context's error and ResultErr. For a call that was not begun it wraps [watchdog.ErrInvalid] or a
	// [*KeyInUse], or is one of those above.
	Err error
	// Layer is what ended the call.
	Layer LayerKind
	// Abandoned says that the call had not returned when its grace was over. It may still run.
	Abandoned bool
	// Elapsed is how long the call took; of an abandoned one, how long the caller waited. It is 0 for a call that was not
	// begun.
	Elapsed time.Duration
	// Limit and Grace are those that were in force; see [Overrun].RunID for a limit that was a run's.
	Limit, Grace time.Duration
	// Note is the last thing that was noted in the call, see [Note]; else the last note of the run in its context, see
	// [watchdog.Watchdog.Note]; empty where there is none.
	Note string
}

// Overran reports whether the call took more than its limit. Its result is kept if there is one.
func (o Outcome[T]) Overran() bool { return o.Layer == LayerSoft || o.Layer == LayerHard }

// verdict is the error of an outcome.
func (i *invocation) verdict(how ending, resultErr error, note string) error {
	switch how.layer {
	case LayerNone:
		return resultErr
	case LayerOutside:
		return i.cutShort(how, resultErr)
	}
	return &Overrun{
		Key: i.call.Key, RunID: i.limitedBy, Layer: how.layer, Limit: i.call.Limit, Grace: i.call.Grace,
		Elapsed: how.elapsed, Note: note, Err: resultErr,
	}
}

// cutShort is the error of a call that was cancelled from outside.
func (i *invocation) cutShort(how ending, resultErr error) error {
	cause := bounded.Cause(i.Context)
	switch {
	case how.abandoned:
		return fmt.Errorf("%s was abandoned after %v, a grace of %v after it was cancelled from outside: %w",
			i.name(), how.elapsed, i.call.Grace, cause)
	case resultErr == nil || errors.Is(cause, resultErr):
		return fmt.Errorf("%s was cancelled from outside and ended after %v: %w", i.name(), how.elapsed, cause)
	}
	return fmt.Errorf("%s was cancelled from outside and ended after %v with an error (%w): %w", i.name(), how.elapsed,
		resultErr, cause)
}

// An Overrun says that a bounded call took longer than it may. It is the cause of the call's context from the limit on,
// and the error of its [Outcome], there with how it ended. It wraps [context.DeadlineExceeded] and
// [os.ErrDeadlineExceeded], and is a [net.Error], as every timeout of this module. It must not be changed.
type Overrun struct {
	// Key is that of the [Call].
	Key string
	// RunID is the ID of the run whose remaining time was the limit; empty where the limit was the call's own.
	RunID string
	// Layer is [LayerSoft], or [LayerHard] for a call that was abandoned.
	Layer LayerKind
	// Limit and Grace are those that were in force. Limit is 0 for a call that was not begun because its run had no time
	// left.
	Limit, Grace time.Duration
	// Elapsed is how long the call had taken: in the context's cause when its limit ended it, in the outcome's error when
	// it ended or was abandoned.
	Elapsed time.Duration
	// Note is the last thing that was noted by then, as in an [Outcome].
	Note string
	// Err is the error that the call returned after its limit, if it did.
	Err error
}

// Error says which call overran, which limit, and what it was last known to do; and what it returned, unless that is
// this overrun again.
func (o *Overrun) Error() string {
	text := nameCall(o.Key) + " " + o.what()
	if o.Note != "" {
		text += fmt.Sprintf("; last noted: %s", o.Note)
	}
	if o.Err != nil && !o.repeated() {
		text += fmt.Sprintf("; it returned: %v", o.Err)
	}
	return text
}

// repeated reports whether the call returned its own overrun, as the cause of its context: it says nothing new.
func (o *Overrun) repeated() bool {
	var cause *Overrun
	if !errors.As(o.Err, &cause) {
		return false
	}
	return cause == o || cause.Layer == LayerSoft && cause.Err == nil && cause.Key == o.Key && cause.RunID == o.RunID &&
		cause.Limit == o.Limit && cause.Grace == o.Grace && cause.Elapsed <= o.Elapsed
}

func (o *Overrun) what() string {
	switch {
	case o.Limit == 0:
		return "was not begun: run " + o.RunID + " has no time left; extend the run or resume it"
	case o.Layer == LayerHard:
		return fmt.Sprintf(
			"was abandoned after %v, a grace of %v after its limit of %s; it runs on until it heeds its context",
			o.Elapsed, o.Grace, o.limit())
	}
	return fmt.Sprintf("overran its limit of %s: %v elapsed", o.limit(), o.Elapsed)
}

func (o *Overrun) limit() string {
	if o.RunID == "" {
		return o.Limit.String()
	}
	return fmt.Sprintf("%v, all that run %s had left", o.Limit, o.RunID)
}

// Unwrap returns [context.DeadlineExceeded], [os.ErrDeadlineExceeded] and the error that the call returned.
func (o *Overrun) Unwrap() []error {
	wrapped := []error{context.DeadlineExceeded, os.ErrDeadlineExceeded}
	if o.Err != nil && o.Err != error(o) { //nolint:errorlint // the very value: it would be looked into for ever
		wrapped = append(wrapped, o.Err)
	}
	return wrapped
}

// Timeout reports true: an overrun is a timeout, as [net.Error] and os.IsTimeout have it.
func (o *Overrun) Timeout() bool { return true }

// Temporary reports true, as Timeout does. It makes the error a [net.Error].
func (o *Overrun) Temporary() bool { return true }
