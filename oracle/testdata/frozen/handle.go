package watchdog

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/handle"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A runHandle is the watchdog as the packages beside the root have it, by the context of its run. What is recorded for
// them is in overrun.go and correction.go.
type runHandle Watchdog

// Alive implements [handle.Signs].
func (h *runHandle) Alive() { (*Watchdog)(h).Activity() }

// AliveAt implements [handle.Signs].
func (h *runHandle) AliveAt(now time.Time) {
	for w := (*Watchdog)(h); w != nil; w = w.outer {
		pulse := w.pulse.Load()
		switch {
		case pulse == nil:
		case w.clock.other != nil || w.trace != nil:
			w.signalLocked(false)
		default:
			w.signalAt(pulse, false, now.Sub(w.clock.base.Time()))
		}
	}
}

// Settings implements [handle.Run].
func (h *runHandle) Settings() handle.Settings {
	w := (*Watchdog)(h)
	return handle.Settings{
		Clock: w.clock.other, Logger: w.log(), Limits: &w.limits.Limits, RecordTimeout: w.recorder.timeout,
		Disabled: w.disabled, ObserveOnly: w.observeOnly,
	}
}

// Silence implements [handle.Run].
func (h *runHandle) Silence() (time.Duration, bool) { return (*Watchdog)(h).silence() }

// MaxSilence implements [handle.Run].
func (h *runHandle) MaxSilence() time.Duration {
	shortest := time.Duration(NoLimit)
	for w := (*Watchdog)(h); w != nil; w = w.outer {
		if w.disabled {
			continue
		}
		shortest = min(shortest, w.limits.Idle, w.holdsIdle())
		if w.limits.FromFirstSign {
			shortest = min(shortest, w.limits.FirstSign)
		}
	}
	return shortest
}

// holdsIdle is how silent the open holds allow the run to be.
func (w *Watchdog) holdsIdle() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.Signs == nil {
		return NoLimit
	}
	return w.seen.Signs.Holds.Idle()
}

// Paused implements [handle.Run].
func (h *runHandle) Paused(released func()) (paused, longer time.Duration) {
	w := (*Watchdog)(h)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.Signs == nil || w.seen.Signs.Pauses.None() { // nearly always
		return 0, 0
	}
	now := w.clock.elapsed()
	longer = w.seen.Signs.Pauses.After(now)
	if longer > 0 && released != nil && w.phase != ended {
		w.extras().released = append(w.more.released, released)
	}
	return verdict.Paused(w.seen, now), longer
}

// State implements [handle.Run].
func (h *runHandle) State() handle.State {
	w := (*Watchdog)(h)
	s, l := w.state()
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.Loop, _ = l.detector.MarshalBinary() // never fails
	}
	return s
}

// state is the run's but for what it remembers of its steps, which the looper has.
func (w *Watchdog) state() (s handle.State, l *looper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Extended, s.Warned, s.WrappedUp = w.seen.Extended, w.seen.Warned, w.seen.Wrapped
	s.Paused = verdict.Paused(w.seen, w.clock.elapsed())
	if w.complete {
		s.Command = w.commandEnd()
	}
	if w.seen.Signs != nil {
		s.Holds = w.seen.Signs.Holds.Len()
	}
	if w.more != nil {
		l = w.more.looper
	}
	return s, l
}

// Spend implements [handle.Run]. It is Usage with how many calls were refused.
func (h *runHandle) Spend() (all []handle.Spend) {
	w := (*Watchdog)(h)
	used := w.Usage()
	if used == nil {
		return nil
	}
	a := w.accountOf()
	a.in.lock()
	defer a.in.unlock()
	for i, u := range used {
		limit := &a.Spend.Limits[i]
		if limit.Kind == verdict.KindLoop {
			continue
		}
		all = append(all, handle.Spend{
			Limit: u.Limit, Tool: u.Tool, Scope: u.Scope, Currency: u.Currency,
			Used: u.Used, Admitted: u.Admitted, Allowed: u.Allowed, Refused: a.Spend.Refusals(i),
			Reserve: limit.Reserve, WarnAt: limit.WarnAt,
		})
	}
	return all
}

// RestoreLoop implements [handle.Run].
func (h *runHandle) RestoreLoop(state []byte) {
	w := (*Watchdog)(h)
	l := w.looper()
	l.mu.Lock()
	err := l.detector.UnmarshalBinary(state)
	l.mu.Unlock()
	if err != nil {
		w.log().Warn("what a run did before is not known, and a loop is found later", "run", w.id, "error", err)
	}
}

// Asked implements [handle.Run].
func (h *runHandle) Asked() bool {
	w := (*Watchdog)(h)
	w.mu.Lock()
	stops := w.phase == recording
	w.mu.Unlock()
	r := w.readers.Load()
	if r == nil {
		return stops
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return stops || len(r.outbox) > 0
}

// Recorded implements [handle.Run].
func (h *runHandle) Recorded(retry bool) bool {
	w := (*Watchdog)(h)
	if retry && w.recorder.waiting() {
		w.recorder.retry(w.storeContext(), clocks.Now(w.clock.other))
	}
	return !w.recorder.waiting()
}

// InDoubt implements [handle.Run].
func (h *runHandle) InDoubt() (complete, resumed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more == nil {
		return false, false
	}
	return !h.complete && h.more.failed.tries > 0, h.more.resumeInDoubt
}

// CompleteCommand implements [handle.Run].
func (h *runHandle) CompleteCommand(end record.CommandEnd) error {
	w := (*Watchdog)(h)
	w.mu.Lock()
	w.extras().command = end
	w.mu.Unlock()
	return w.Complete()
}

// End implements [handle.Run]. It waits for the host's code that the end runs as Close does.
func (h *runHandle) End(cause error) {
	w := (*Watchdog)(h)
	began := clocks.Now(w.clock.other)
	w.endRunning(cause)
	w.recorder.awaitSince(began, w.tellTrace())
}

// Within implements [handle.Run].
func (h *runHandle) Within(ctx context.Context) handle.Work {
	return &try{Context: ctx, w: (*Watchdog)(h)}
}
