package watchdog

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A runHandle is the watchdog as the packages beside the root have it, by the context of its run. What is recorded for
// them is in overrun.go.
type runHandle Watchdog

// Alive implements [handle.Signs].
func (h *runHandle) Alive() { (*Watchdog)(h).Activity() }

// AliveAt implements [handle.Signs].
func (h *runHandle) AliveAt(now time.Time) {
	for r := &h.r; r != nil; r = r.outer {
		pulse := r.node.Pulse.Load()
		switch {
		case pulse == nil:
		case r.tree.clock.other != nil || r.tree.trace != nil:
			r.signLocked(false)
		default:
			r.signAt(pulse, false, now.Sub(r.tree.clock.base.Time()))
		}
	}
}

// Settings implements [handle.Run].
func (h *runHandle) Settings() handle.Settings {
	return handle.Settings{
		Clock: h.r.tree.clock.other, Logger: h.r.log(), Limits: &h.r.limits.Limits, RecordTimeout: h.r.tree.timeout,
		Disabled: h.r.disabled, ObserveOnly: h.r.observeOnly,
	}
}

// Silence implements [handle.Run].
func (h *runHandle) Silence() (time.Duration, bool) { return h.r.silence() }

// MaxSilence implements [handle.Run].
func (h *runHandle) MaxSilence() time.Duration {
	shortest := time.Duration(NoLimit)
	for r := &h.r; r != nil; r = r.outer {
		if r.disabled {
			continue
		}
		r.locked(func() {
			if signs := r.node.Seen().Signs; signs != nil {
				shortest = min(shortest, signs.Holds.Idle()) // how silent the open holds allow the run to be
			}
		})
		shortest = min(shortest, r.limits.Idle)
		if r.limits.FromFirstSign {
			shortest = min(shortest, r.limits.FirstSign)
		}
	}
	return shortest
}

// Paused implements [handle.Run].
func (h *runHandle) Paused(w handle.Waiter) (paused, longer time.Duration) {
	r := &h.r
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	seen := r.node.Seen()
	if seen.Signs == nil || seen.Signs.Pauses.None() { // nearly always
		return 0, 0
	}
	now := r.elapsed()
	longer = seen.Signs.Pauses.After(now)
	if longer > 0 && w != nil && r.node.Phase() != machine.Over {
		if r.extras().waiters == nil {
			r.more.waiters = map[handle.Waiter]struct{}{}
		}
		r.more.waiters[w] = struct{}{}
	}
	return verdict.Paused(*seen, now), longer
}

// Forget implements [handle.Run].
func (h *runHandle) Forget(w handle.Waiter) {
	h.r.locked(func() {
		if h.r.more != nil {
			delete(h.r.more.waiters, w)
		}
	})
}

// State implements [handle.Run].
func (h *runHandle) State() (s handle.State) {
	var l *looper
	h.r.locked(func() {
		seen := h.r.node.Seen()
		s.Extended, s.Warned, s.WrappedUp = seen.Extended, seen.Warned, seen.Wrapped
		s.Paused = verdict.Paused(*seen, h.r.elapsed())
		if h.r.complete {
			s.Command = h.r.node.CommandEnd()
		}
		if seen.Signs != nil {
			s.Holds = seen.Signs.Holds.Len()
		}
		if h.r.more != nil {
			l = h.r.more.looper
		}
	})
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.Loop, _ = l.detector.MarshalBinary() // never fails
	}
	return s
}

// Spend implements [handle.Run]. It is Usage with how many calls were refused.
func (h *runHandle) Spend() (all []handle.Spend) {
	a := h.r.account.Load()
	if a == nil {
		return nil
	}
	h.r.tree.mu.Lock()
	defer h.r.tree.mu.Unlock()
	for i, u := range a.usage() {
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
func (h *runHandle) RestoreLoop(state []byte) { h.r.restoreLoop(state) }

// Asked implements [handle.Run].
func (h *runHandle) Asked() bool {
	stops := false
	h.r.locked(func() { stops = h.r.node.Phase() == machine.Recording })
	from := h.r.readers.Load()
	if from == nil {
		return stops
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	return stops || len(from.outbox) > 0
}

// Recorded implements [handle.Run].
func (h *runHandle) Recorded(retry bool) bool {
	if retry && h.r.waiting() {
		h.r.retry(clocks.Now(h.r.tree.clock.other))
	}
	return !h.r.waiting()
}

// InDoubt implements [handle.Run].
func (h *runHandle) InDoubt() (complete, resumed bool) {
	h.r.locked(func() {
		if more := h.r.more; more != nil {
			complete, resumed = !h.r.complete && more.failed.tries > 0, more.resumeInDoubt
		}
	})
	return complete, resumed
}

// CompleteCommand implements [handle.Run].
func (h *runHandle) CompleteCommand(end record.CommandEnd) error {
	h.r.locked(func() { h.r.node.Command(end) })
	return (*Watchdog)(h).Complete()
}

// End implements [handle.Run]. It waits for the host's code that the end runs as Close does.
func (h *runHandle) End(cause error) {
	began := clocks.Now(h.r.tree.clock.other)
	h.r.endRunning(cause)
	h.r.tellSince(began)
}

// Within implements [handle.Run].
func (h *runHandle) Within(ctx context.Context) handle.Work {
	return &try{Context: ctx, of: (*Watchdog)(h)}
}
