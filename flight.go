package watchdog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"
)

// A flight is a call that is under way, and the call's context.
//
// Two things are decided in it, each in one place. What ended the context, the call's return, its limit or the context outside, is
// decided by the inner context: the first cancel wins there, and its cause tells which one it was. (An atomic of our own beside
// it could disagree with what the call reads in its context.) Whether the call was abandoned is decided under mu.
type flight struct {
	context.Context
	cancel   context.CancelCauseFunc
	call     Call // with the defaults in place
	watchdog *Watchdog
	run      string // whose remaining time is the limit
	start    time.Time
	timer    timer
	overrun  atomic.Pointer[Overrun]

	mu      sync.Mutex
	stage   stage
	wake    chan struct{} // closed when the call settles, where somebody waits out its grace
	elapsed time.Duration // when it settled

	// Written by the call's goroutine before it settles.
	returned bool
	err      error
	panicked *CallPanic
}

// A stage is how far a flight has come. It leaves the first one once.
type stage uint8

const (
	flying    stage = iota
	settled         // the call has ended, and its result is the caller's
	abandoned       // the caller has left; whatever the call still brings is dropped
)

// An ending is what the caller learned of the end.
type ending struct {
	layer     BoundLayer
	abandoned bool
	elapsed   time.Duration
}

// A landing is the cause that a returning call ends its context with, so that the context itself knows which came first.
type landing flight

// Error says that the call has returned, for those who still use its context.
func (*landing) Error() string { return "the bounded call that this context belongs to has returned" }

// Unwrap returns [context.Canceled].
func (*landing) Unwrap() error { return context.Canceled }

// takeOff makes the context and sets the timer: exceeded means more than.
func (f *flight) takeOff(ctx context.Context) {
	f.Context, f.cancel = context.WithCancelCause(ctx)
	if f.call.Limit != NoLimit {
		f.timer = afterFunc(f.call.Clock, f.call.Limit+1, f.exceed)
	}
}

// exceed ends the context for its limit. The overrun is stored first, so that whoever finds it as the cause can tell whose it is.
func (f *flight) exceed() {
	overrun := &Overrun{
		Key: f.call.Key, Run: f.run, Layer: LayerSoft, Limit: f.call.Limit, Grace: f.call.Grace,
		Elapsed: f.since(), Note: f.watchdog.LastNote(),
	}
	if f.overrun.CompareAndSwap(nil, overrun) {
		f.cancel(overrun)
	}
}

// settle ends the call's goroutine: the call has returned, panicked or exited. A limit whose timer is late
// has been exceeded all the same.
func (f *flight) settle(recovered any) {
	switch {
	case recovered != nil:
		f.panicked = newCallPanic(recovered)
	case !f.returned:
		f.err = ErrCallExited
	}
	elapsed := f.since()
	if elapsed > f.call.Limit {
		f.exceed()
	}
	if !f.land(elapsed) {
		f.endLate(elapsed)
		return
	}
	f.cancel((*landing)(f))
}

// land reports whether the caller is still there for the result.
func (f *flight) land(elapsed time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stage == abandoned {
		return false
	}
	f.stage, f.elapsed = settled, elapsed
	if f.wake != nil {
		close(f.wake)
	}
	return true
}

// wait returns when the call has ended, or when its context has and the grace after it.
func (f *flight) wait() ending {
	<-f.Context.Done()
	if f.timer != nil {
		f.timer.Stop()
	}
	layer := f.decided()
	if layer != LayerNone && !f.settles() {
		return f.leave(layer)
	}
	f.call.Calls.free(f)
	return ending{layer: layer, elapsed: f.taken(layer)}
}

// taken is how long a call took that has settled. It may have looked at the clock just before its limit, and come just after it.
func (f *flight) taken(layer BoundLayer) time.Duration {
	if layer == LayerSoft {
		return max(f.elapsed, f.overrun.Load().Elapsed)
	}
	return f.elapsed
}

// decided is what ended the context.
func (f *flight) decided() BoundLayer {
	cause := context.Cause(f.Context)
	switch {
	case cause == error((*landing)(f)): //nolint:errorlint // the very value, not one that it wraps
		return LayerNone
	case f.overran(cause):
		return LayerSoft
	}
	return LayerOutside
}

// overran reports whether a cause of the context is this call's own overrun, as opposed to that of a call around it.
func (f *flight) overran(cause error) bool {
	overrun := f.overrun.Load()
	return overrun != nil && cause == error(overrun) //nolint:errorlint // the very value, not one that it wraps
}

// settles waits out the grace and reports whether the call has ended by then.
func (f *flight) settles() bool {
	f.mu.Lock()
	if f.stage == settled {
		f.mu.Unlock()
		return true
	}
	f.wake = make(chan struct{})
	f.mu.Unlock()
	if f.call.Grace == NoLimit {
		<-f.wake
	} else {
		waitFor(f.wake, f.call.Clock, f.call.Grace+1)
	}
	return !f.abandon()
}

// waitFor returns when the channel is closed, or after d, and reports whether it was closed.
func waitFor(closed <-chan struct{}, other clock.Clock, d time.Duration) bool {
	over := make(chan struct{})
	defer afterFunc(other, d, func() { close(over) }).Stop()
	select {
	case <-closed:
		return true
	case <-over:
		return false
	}
}

// since is how long the call has taken.
func (f *flight) since() time.Duration {
	if f.call.Clock != nil {
		return f.call.Clock.Since(f.start)
	}
	return time.Since(f.start)
}

func afterFunc(other clock.Clock, d time.Duration, f func()) timer {
	if other != nil {
		return other.AfterFunc(d, f)
	}
	return time.AfterFunc(d, f)
}

// Deadline is that of the limit, if it comes before those outside. The time of a clock for tests is nobody else's deadline.
func (f *flight) Deadline() (time.Time, bool) {
	outer, ok := f.Context.Deadline()
	if f.call.Clock != nil || f.call.Limit == NoLimit {
		return outer, ok
	}
	if own := f.start.Add(f.call.Limit); !ok || own.Before(outer) {
		return own, true
	}
	return outer, true
}

// Err is [context.DeadlineExceeded] where the limit ended the context. (Contexts made from this one have context.Canceled
// then; the cause is the same for all.)
func (f *flight) Err() error {
	err := f.Context.Err()
	if err != nil && f.overran(context.Cause(f.Context)) {
		return context.DeadlineExceeded
	}
	return err
}
