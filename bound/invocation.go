package bound

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
)

// An invocation is a call that is in flight, and the call's context.
//
// Two things are decided in it, each in one place. The inner context decides what ended it: the call's return, its
// limit, or the context outside. The first cancel wins there, and its cause tells which one it was. (An atomic of our
// own beside it could disagree with what the call reads in its context.) The mutex decides whether the call was
// abandoned.
type invocation struct {
	context.Context
	cancel    context.CancelCauseFunc
	call      Call               // with the defaults in place
	run       *watchdog.Watchdog // that the context belongs to, nil where there is none
	onRecord  bool               // the run had not ended when the call began
	outer     *invocation
	limitedBy string // the run whose remaining time is the limit
	start     time.Time
	uptime    time.Duration // of a clock that counts it, then
	paused    time.Duration // how long the run had stood still by then
	timer     clocks.Timer  // guarded by mu
	overrun   atomic.Pointer[Overrun]
	noted     atomic.Pointer[string]

	mu      sync.Mutex
	stage   stage
	looked  bool          // after its timer, see forget
	done    chan struct{} // closed when the call settles, if somebody waits out its grace
	elapsed time.Duration // when it settled
	left    AbandonedCall // written before it is listed

	// Written by the call's goroutine before it settles.
	returned bool
	err      error
	panicked *CallPanic
}

// A stage is how far an invocation has come. It leaves the first one once.
type stage uint8

const (
	inFlight  stage = iota
	settled         // the call has ended, and its result is the caller's
	abandoned       // the caller has left; whatever the call still brings is dropped
)

type ending struct {
	layer     LayerKind
	abandoned bool
	elapsed   time.Duration
}

// A returnedCause is the cause with which a returning call ends its context, so that the context itself knows which
// came first.
type returnedCause invocation

// Error says that the call has returned, for those who still use its context.
func (*returnedCause) Error() string {
	return "the bounded call that this context belongs to has returned"
}

// Unwrap returns [context.Canceled].
func (*returnedCause) Unwrap() error { return context.Canceled }

// arm makes the context and sets the timer: exceeded means more than.
func (i *invocation) arm(ctx context.Context) {
	i.Context, i.cancel = context.WithCancelCause(ctx)
	if i.call.Limit != watchdog.NoLimit {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.timer = clocks.AfterFunc(i.call.Clock, clocks.Patience(i.call.Clock, i.call.Limit+1), i.look)
	}
}

// look is that of the timer, and of the release of a hold: the limit stands still while the run's wall clock does.
func (i *invocation) look() {
	paused, longer := i.standstill((*waiter)(i))
	left := i.call.Limit - (i.age() - paused)
	if _, counts := clocks.Uptime(i.call.Clock); left < 0 || paused == 0 && !counts {
		i.exceed()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.looked = true; i.Context.Err() == nil {
		i.timer.Reset(clocks.Patience(i.call.Clock, longer+left+1))
		return
	}
	i.forget() // it may have ended before it waited
}

// A waiter has the call looked at when the run's wall clock goes on.
type waiter invocation

// Released implements [handle.Waiter].
func (w *waiter) Released() { (*invocation)(w).look() }

// forget has the run tell a call that has ended no more, which it would keep until then.
func (i *invocation) forget() {
	if i.onRecord {
		handle.Of(i.run.Context()).Forget((*waiter)(i))
	}
}

// standstill is how long the run's wall clock has stood still since the call began, and for how much longer it will, at
// most: the waiter is told if it goes on before.
func (i *invocation) standstill(w handle.Waiter) (since, longer time.Duration) {
	if !i.onRecord {
		return 0, 0
	}
	paused, longer := handle.Of(i.run.Context()).Paused(w)
	return paused - i.paused, longer
}

// exceed ends the context for its limit. It stores the overrun first, so that whoever finds it as the cause can tell
// whose it is.
func (i *invocation) exceed() {
	overrun := &Overrun{
		Key: i.call.Key, RunID: i.limitedBy, Layer: LayerSoft, Limit: i.call.Limit, Grace: i.call.Grace,
		Elapsed: i.since(), Note: i.note(),
	}
	if i.overrun.CompareAndSwap(nil, overrun) {
		i.cancel(overrun)
	}
}

// settle ends the call's goroutine: the call has returned, panicked or exited. A limit whose timer is late was exceeded
// all the same.
func (i *invocation) settle(recovered any) {
	switch {
	case recovered != nil:
		i.panicked = newCallPanic(recovered)
	case !i.returned:
		i.err = ErrExited
	}
	elapsed := i.since()
	if elapsed > i.call.Limit {
		i.exceed()
	}
	if !i.handOver(elapsed) {
		i.endLate(elapsed)
		return
	}
	i.cancel((*returnedCause)(i))
}

// handOver reports whether the caller is still there for the result.
func (i *invocation) handOver(elapsed time.Duration) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stage == abandoned {
		return false
	}
	i.stage, i.elapsed = settled, elapsed
	if i.done != nil {
		close(i.done)
	}
	return true
}

// wait returns when the call has ended, or a grace after its context has.
func (i *invocation) wait() ending {
	<-i.Context.Done()
	i.disarm()
	how := i.end()
	i.record(how)
	if how.abandoned {
		i.release() // what the call held is given back before its key is free
	}
	i.call.Calls.free(i)
	return how
}

func (i *invocation) disarm() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.timer != nil {
		i.timer.Stop()
	}
	if i.looked {
		i.forget()
	}
}

// end waits out the grace of a call that was cut short, and tells how it ended.
func (i *invocation) end() ending {
	layer := i.decided()
	if layer == LayerNone || i.settles() {
		return ending{layer: layer, elapsed: i.taken(layer)}
	}
	if layer == LayerSoft {
		layer = LayerHard
	}
	return ending{layer: layer, abandoned: true, elapsed: i.since()}
}

// taken is how long a settled call took. It may have read the clock just before its limit and returned just after.
func (i *invocation) taken(layer LayerKind) time.Duration {
	if layer == LayerSoft {
		return max(i.elapsed, i.overrun.Load().Elapsed)
	}
	return i.elapsed
}

// decided is what ended the context.
func (i *invocation) decided() LayerKind {
	cause := context.Cause(i.Context)
	switch {
	case cause == error((*returnedCause)(i)): //nolint:errorlint // the very value, not one that it wraps
		return LayerNone
	case i.overran(cause):
		return LayerSoft
	}
	return LayerOutside
}

// overran reports whether a cause of the context is this call's own overrun, not that of a call around it.
func (i *invocation) overran(cause error) bool {
	overrun := i.overrun.Load()
	return overrun != nil && cause == error(overrun) //nolint:errorlint // the very value, not one that it wraps
}

// settles waits out the grace and reports whether the call has ended by then.
func (i *invocation) settles() bool {
	i.mu.Lock()
	if i.stage == settled {
		i.mu.Unlock()
		return true
	}
	i.done = make(chan struct{})
	i.mu.Unlock()
	if i.call.Grace == watchdog.NoLimit {
		<-i.done
		return true
	}
	over, stop := clocks.WithTimeout(context.Background(), i.call.Clock, i.call.Grace+1)
	defer stop()
	select {
	case <-i.done:
	case <-over.Done():
	}
	return !i.abandon()
}

// since is how long the call has taken, without the time in which its run stood still.
func (i *invocation) since() time.Duration {
	paused, _ := i.standstill(nil)
	return i.age() - paused
}

// age is how long ago the call began: by the clock's count of uptime if it has one, as its run's time.
func (i *invocation) age() time.Duration {
	if count, counts := clocks.Uptime(i.call.Clock); counts {
		return count - i.uptime
	}
	return clocks.Since(i.call.Clock, i.start)
}

// Deadline is that of the limit, if it comes before those outside. The time of a clock for tests is nobody else's
// deadline.
func (i *invocation) Deadline() (time.Time, bool) {
	outer, ok := i.Context.Deadline()
	if i.call.Clock != nil || i.call.Limit == watchdog.NoLimit {
		return outer, ok
	}
	if own := i.start.Add(i.call.Limit); !ok || own.Before(outer) {
		return own, true
	}
	return outer, true
}

// Err is [context.DeadlineExceeded] if the limit ended the context. (Contexts made from this one have context.Canceled
// then; the cause is the same for all.)
func (i *invocation) Err() error {
	err := i.Context.Err()
	if err != nil && i.overran(context.Cause(i.Context)) {
		return context.DeadlineExceeded
	}
	return err
}

// record has the run that the call was made in put on record that it overran or was abandoned. It has no part of what
// the work returned or panicked with, which may be a secret.
func (i *invocation) record(how ending) {
	overran := how.layer == LayerSoft || how.layer == LayerHard
	if !i.onRecord || !overran && !how.abandoned {
		return
	}
	handle.Of(i.run.Context()).RecordOverrun(record.Overrun{
		Key: i.call.Key, Layer: string(how.layer), Note: i.note(), LimitSeconds: recorded(i.call.Limit),
		ElapsedSeconds: record.ExactSeconds(how.elapsed), Abandoned: how.abandoned, LimitedBy: i.limitedBy,
	})
}

// recorded is a limit as events have it: 0 for none.
func recorded(limit time.Duration) record.Seconds {
	if limit == watchdog.NoLimit {
		return 0
	}
	return record.ExactSeconds(limit)
}
