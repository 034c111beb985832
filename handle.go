package watchdog

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A runHandle is the watchdog as the packages beside the root have it, by the context of its run: its methods are those
// of [handle.Run].
type runHandle Watchdog

func (h *runHandle) Alive() { (*Watchdog)(h).Activity() }

func (h *runHandle) AliveAt(now time.Time) { h.r.signal(false, now) }

func (h *runHandle) Settings() handle.Settings {
	return handle.Settings{
		Clock: h.r.Tree.Clock, Logger: h.r.log(), Limits: &h.r.limits.Limits, RecordTimeout: h.r.Tree.Timeout,
		Disabled: h.r.Node.Disabled, ObserveOnly: h.r.Node.ObserveOnly,
	}
}

func (h *runHandle) Silence() (silence time.Duration, signalled bool) {
	h.r.Locked(func() { silence, signalled = h.r.Node.Silence(h.r.Now()) })
	return silence, signalled
}

func (h *runHandle) StandStill() {
	h.r.TakeAside(&machine.Input{Kind: machine.OpenHold, Limits: verdict.HoldLimits{Cap: verdict.Never}})
}

func (h *runHandle) IdleNow() (allowed time.Duration, held bool) {
	allowed = NoLimit
	for r := &h.r; r != nil; r = r.around() {
		if !r.Node.Disabled {
			r.Locked(func() {
				here, by := r.Node.IdleNow(r.Now())
				allowed, held = min(allowed, here), held || by
			})
		}
	}
	return allowed, held
}

func (h *runHandle) Paused(w handle.Waiter) (paused, longer time.Duration) {
	r := &h.r
	r.Lock()
	defer r.Unlock()
	seen := r.Node.Seen()
	if seen.Signs == nil || seen.Signs.Pauses.None() { // nearly always
		return 0, 0
	}
	now := r.Elapsed()
	longer = seen.Signs.Pauses.After(now)
	if longer > 0 && w != nil {
		r.Await(w)
	}
	return verdict.Paused(*seen, now), longer
}

func (h *runHandle) Forget(w handle.Waiter) { h.r.Locked(func() { h.r.Run.Forget(w) }) }

func (h *runHandle) State() (s handle.State) {
	h.r.Locked(func() {
		seen := h.r.Node.Seen()
		s.Extended, s.Warned, s.WrappedUp = seen.Extended, seen.Warned, seen.Wrapped
		s.Paused = verdict.Paused(*seen, h.r.Elapsed())
		if end := h.r.Node.Command(); h.r.Complete() && end != nil {
			s.Command = *end
		}
		if seen.Signs != nil {
			s.Holds = seen.Signs.Holds.Named()
		}
	})
	return s
}

func (h *runHandle) LastNote() string { return h.r.Node.LastNote() }

func (h *runHandle) Recorded(retry bool) bool {
	if retry && h.r.Record.Waiting() {
		h.r.Retry(clocks.Now(h.r.Tree.Clock))
	}
	return !h.r.Record.Waiting()
}

func (h *runHandle) InDoubt() (complete, resumed bool) {
	h.r.Locked(func() {
		complete = h.r.CompleteInDoubt()
		resumed = h.r.more != nil && h.r.more.resumeInDoubt
	})
	return complete, resumed
}

func (h *runHandle) CompleteCommand(end record.CommandEnd) error {
	h.r.Locked(func() { h.r.Node.EndCommand(&end) })
	return (*Watchdog)(h).Complete()
}

// End waits for the host's code that the end runs as Close does.
func (h *runHandle) End(cause error) {
	began := clocks.Now(h.r.Tree.Clock)
	h.r.End(cause)
	h.r.TellSince(began)
}

// RecordOverrun never waits for a store: a run that does everything on its caller's goroutine does this at the next
// poll.
func (h *runHandle) RecordOverrun(call record.Overrun) {
	r := &h.r
	lost := &machine.Loss{What: "that a call overran"}
	var k driver.Work
	var dropped []*machine.Entry
	r.Locked(func() {
		e := machine.NewEntry(lost, r.Node.Moment(r.Now()).Overrun(call))
		dropped = r.Node.Pending.PutSpare(e)
		r.Node.LookClosely() // if it cannot be recorded, the next poll tries
		if r.Tree.Inline && !r.Tree.Instant {
			return
		}
		r.Record.Add(e)
		r.Want(&k)
	})
	for _, old := range dropped {
		bounded.Quietly(func() { r.LogLoss(lost, old.Err()) })
	}
	if k.Records() && r.Tree.Instant {
		r.Record.Carry(clocks.Now(r.Tree.Clock))
		return
	}
	k.Pass(r.Tree, clocks.Now(r.Tree.Clock))
}

// RecordFinished waits for a stop that is being recorded. If the run has a stop of its own, the work had finished
// before that could end it, and RecordFinished records that and reports true.
func (h *runHandle) RecordFinished() (corrected bool) {
	r := &h.r
	r.End(ErrClosed)
	r.TellAside()
	stop, _ := r.howEnded()
	if stop == nil || stop.RunID != r.Node.Run {
		return false
	}
	var e event.Event
	r.Locked(func() { e = r.Node.Moment(r.Now()).Correction(stop.EventID()) })
	if r.Record.Waiting() { // the store fails, and Close tries again
		r.Record.Keep(nil, e)
	} else {
		_ = r.Record.AppendOrKeep(r.Values(), e)
	}
	return true
}

// FromContext returns the watchdog of the innermost run that the context belongs to, nil if there is none. All
// methods of a nil [Watchdog] work, so that deep code need not know whether it is watched.
func FromContext(ctx context.Context) *Watchdog {
	h, _ := ctx.Value(handle.Key{}).(*runHandle)
	return (*Watchdog)(h)
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

// A runContext is the watchdog as the context of its run. It is not a child of its parent: what ends the run is decided
// in one place, under the lock of its tree, and a child would be ended from a second one. Whoever looks at it first
// checks the parent, and [context.AfterFunc] tells those who only wait.
type runContext Watchdog

// Deadline is the parent's.
func (c *runContext) Deadline() (time.Time, bool) { return c.r.Deadline() }

// Value finds the run's handle besides what the parent carries. Go 1.25's context.Cause asks for the inner context's
// cause, by a key of its own, before anybody has called Err: so the parent is checked here, too.
func (c *runContext) Value(key any) any {
	if key == (handle.Key{}) || key == (handle.SignsKey{}) {
		return (*runHandle)(c)
	}
	c.r.CheckParent()
	return c.r.Inner().Value(key)
}

// Done implements [context.Context].
func (c *runContext) Done() <-chan struct{} {
	c.r.CheckParent()
	return c.r.Inner().Done()
}

// Err implements [context.Context]. A run that its parent ended has the parent's error.
func (c *runContext) Err() error { return c.r.Err() }
