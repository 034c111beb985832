package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/pending"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A HoldLimit says how long a [Hold] may last, and how silent it may be. The zero value is the budget's cap, and any
// silence.
type HoldLimit struct {
	// Cap is the longest that the hold may be open: zero means [Budget].Hold, [NoLimit] none. It trips by itself and
	// names the key.
	Cap time.Duration
	// Idle is how long the run may give no sign of life while the hold is open, such as a tool that streams: activity
	// renews it, and so does each opening and closing of a hold. Of several open holds the longest Idle counts. It trips
	// as [Budget].Idle does, which may be off, with [Ladders].Idle, the code [IdleExceeded] and the hold's key. Zero and
	// [NoLimit] mean no limit: while such a hold is open, the run may be silent.
	Idle time.Duration
	// PausesWallClock has the wall clock stand still while the hold is open, for its Cap at most: for a person's approval.
	// It needs a Cap. In its own process the pause counts from its opening to its release, at once, whatever the store
	// says. Both are recorded, as [EventHold] and [EventRelease]; other processes, and a restart, count what the store
	// has, and a stop that one of them stored before stands. All layers of the run stand still with it, whether they begin
	// before or meanwhile, and whichever of them has the hold. A hold whose process is gone stays open, and allows any
	// silence: whoever opens one with its key takes it over, with its first Cap and an Idle of their own. [Budget].Safety
	// goes on.
	PausesWallClock bool
}

// flaw says what is wrong with the limit, or nothing.
func (l HoldLimit) flaw() string {
	switch {
	case l.Cap < 0:
		return fmt.Sprintf("its Cap is %v; use a positive duration, 0 for the budget's or NoLimit", l.Cap)
	case l.Idle < 0:
		return fmt.Sprintf("its Idle is %v; use a positive duration, or 0 for no limit", l.Idle)
	case l.PausesWallClock && l.Cap == NoLimit:
		return "it stops the wall clock and has no Cap; give it one"
	}
	return ""
}

// A Hold is a stretch in which silence is expected: a tool call in flight, a person's approval. While any hold is open,
// the budget's idle and no-progress do not run; when the last one closes they begin again from zero. A hold can have a
// limit of silence of its own, see [HoldLimit]. A hold of a layer holds the runs around it, too, which may be silent
// meanwhile, and ends with the layer.
type Hold struct {
	w      *Watchdog
	id     verdict.HoldID // guarded by w.mu, as the rest
	closed bool
	// pause is how it stops the wall clock, nil if it does not.
	pause   *verdict.Pause
	opening *pending.State // of the pause; nil if another process opened it
	// restored tells that a process which is gone opened it, and nobody has taken it over.
	restored    bool
	outer       *Hold       // the same on the run around a layer; nil once it is closed
	stopContext func() bool // the registration with its context, which can be the host's code; nil once it is closed
}

// Hold opens a hold under a key. [Hold.Close] closes it, or the end of the context or of the run, whichever comes
// first. Prefer [Watchdog.During], which closes it whatever happens.
//
// The error wraps [ErrInvalid] for a key that is empty, too long or has control characters, and for a negative limit;
// [ErrHeld] if a hold with that key is open; or [ErrEnded] if the run has ended. On a nil Watchdog it does nothing.
func (w *Watchdog) Hold(ctx context.Context, key string, limit HoldLimit) (*Hold, error) {
	h, err := w.open(key, limit)
	if err != nil {
		return nil, fmt.Errorf("hold %q: %w", key, err)
	}
	h.closeWith(ctx)
	return h, nil
}

// During runs the work under a hold, which is closed when it returns or panics. The error is the work's, or that of
// [Watchdog.Hold], and then the work was not begun.
func (w *Watchdog) During(
	ctx context.Context, key string, limit HoldLimit, work func(context.Context) error,
) error {
	h, err := w.Hold(ctx, key, limit)
	if err != nil {
		return err
	}
	defer h.Close()
	return work(ctx)
}

// Close closes the hold, exactly once: it reports whether this call did. A hold is also closed with its context and
// with its run. It does not wait for a stop that is being recorded: if the run goes on after all, the hold is closed.
// Closing a nil Hold does nothing.
func (h *Hold) Close() bool {
	stop, closed := h.release()
	if stop != nil {
		stop()
	}
	return closed
}

// open checks the hold and opens it, on the runs around a layer as well.
func (w *Watchdog) open(key string, limit HoldLimit) (*Hold, error) {
	if w == nil {
		return nil, nil
	}
	if flaw := textFlaw(key, MaxAggregateID); flaw != "" {
		return nil, fmt.Errorf("%w hold: its key %s", ErrInvalid, flaw)
	}
	if limit.Cap == 0 {
		limit.Cap = w.limits.holdCap
	}
	if flaw := limit.flaw(); flaw != "" {
		return nil, fmt.Errorf("%w hold: %s", ErrInvalid, flaw)
	}
	h := &Hold{w: w}
	return h.openAll(verdict.HoldID{Key: key}, limit)
}

// openAll opens the hold on its run, if that has not ended, and on those around it. It waits for a stop that is being
// recorded. If a process that is gone left a hold with the key open, it returns that one.
func (h *Hold) openAll(id verdict.HoldID, limit HoldLimit) (opened *Hold, err error) {
	w := h.w
	var around looks
	for decided := false; !decided; {
		w.change(func() {
			decided = w.phase != recording
			switch {
			case w.phase == ended:
				err = fmt.Errorf("%w: %w", ErrEnded, w.cause())
			case decided && w.signs().Held(id):
				if opened = w.takeOver(id, limit); opened == nil {
					err = fmt.Errorf("%w: close the other hold first, or give each a key of its own", ErrHeld)
				}
			case decided:
				opened = h
				h.take(id, limit)
				if limit.PausesWallClock {
					h.pause, h.opening = w.pauseClock(id.Key, "", limit.Cap)
				}
				around = h.openAround(limit)
			}
		})
	}
	around.settle()
	return opened, err
}

// takeOver returns the open hold if a process that is gone opened it, once. The caller holds mu.
func (w *Watchdog) takeOver(id verdict.HoldID, limit HoldLimit) *Hold {
	h := w.signs().Holds.Find(id).Owner.(*Hold)
	if !h.restored {
		return nil
	}
	h.restored = false
	w.signs().Pauses.TakeOver(h.pause.ID)
	w.signalTaken(Signal{Kind: SignalTakeOver, Key: id.Key, Serial: id.Serial, Idle: w.heedIdle(limit)})
	return h
}

// heedIdle returns the silence that a hold allows, 0 for any, and has signals heeded if there is a limit. The caller
// holds mu.
func (w *Watchdog) heedIdle(limit HoldLimit) time.Duration {
	if limit.Idle == 0 || limit.Idle == NoLimit || w.disabled {
		return 0
	}
	w.heed()
	return limit.Idle
}

// openAround opens a hold on each of the runs around a layer. Each is a hold of its own, whatever the others are
// called, without a cap and with any silence allowed, because it ends with the one inside. The caller holds mu.
func (h *Hold) openAround(limit HoldLimit) (found looks) {
	if h.w.outer == nil {
		return nil
	}
	key := h.w.id + "/" + h.id.Key
	for inside := h; inside.w.outer != nil; inside = inside.outer {
		around := inside.w.outer
		inside.outer = &Hold{w: around}
		found.add(around, around.changeHeld(func() {
			inside.outer.take(verdict.HoldID{Key: key, Serial: around.signs().Holds.NextSerial()}, HoldLimit{Cap: NoLimit})
			if limit.PausesWallClock {
				around.takeLeft(key)
				inside.outer.pause, inside.outer.opening = around.pauseClock(key, inside.w.id, limit.Cap)
			}
		}))
	}
	return found
}

// take opens the hold. The caller holds mu.
func (h *Hold) take(id verdict.HoldID, limit HoldLimit) {
	h.id = id
	s := Signal{Kind: SignalHold, Key: id.Key, Serial: id.Serial, Length: limit.Cap, Idle: h.w.heedIdle(limit)}
	if id.Serial == 0 {
		s.Rung = h.w.more.rungOf(fold.KeyOf(verdict.Hold, id.Key, nil))
	}
	h.w.signalTaken(s)
	h.w.signs().Holds.Find(id).Owner = h
}

// closeWith closes the hold when the context ends.
func (h *Hold) closeWith(ctx context.Context) {
	if h == nil || ctx.Done() == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { h.release() })
	if !h.whileOpen(func() { h.stopContext = stop }) {
		stop()
	}
}

// whileOpen makes the change, holding mu, unless the hold is closed. It reports whether it made the change.
func (h *Hold) whileOpen(change func()) bool {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if h.closed {
		return false
	}
	change()
	return true
}

// release closes the hold here and on the runs around, and reports whether it was open. What ends the registration with
// its context is left to the caller.
func (h *Hold) release() (stop func() bool, closed bool) {
	if h == nil {
		return nil, false
	}
	var found looks
	w := h.w
	w.mu.Lock()
	for ; h != nil && !h.closed; h = h.outer {
		closed = true
		found.add(h.w, h.w.changeHeld(func() {
			h.closeOpen()
			if h.stopContext != nil { // of the innermost
				stop = h.stopContext
			}
		}))
	}
	w.mu.Unlock()
	found.settle()
	w.deliverTrace()
	return stop, closed
}

// closeOpen closes an open hold of a run that goes on. The caller holds mu.
func (h *Hold) closeOpen() {
	h.closed = true
	h.w.signalTaken(Signal{Kind: SignalRelease, Key: h.id.Key, Serial: h.id.Serial})
	h.w.releaseEvent(h.id, h.pause, h.opening)
}

// closeHolds closes the holds of a run that has ended, here and on the runs around, so that nothing of them is kept.
// What is the host's code is left to whoever unlocks. The caller holds mu.
func (w *Watchdog) closeHolds() {
	w.mu.leave(w, w.stopParent) // of a type of the host's own
	w.stopParent = nil
	if w.seen.Signs == nil || w.seen.Signs.Holds == nil {
		return
	}
	for _, owner := range w.seen.Signs.Holds.Owners() {
		h := owner.(*Hold)
		h.closed = true
		w.mu.leave(w, h.stopContext)
		for around := h.outer; around != nil && !around.closed; around = around.outer {
			around.closeOpen()
			around.w.lookSoon()
			if !w.pollOnly { // differs: recorded at once also on a mock clock, whose timer comes when that is set
				w.mu.left = append(w.mu.left, around.w.ring)
			}
		}
		h.outer, h.stopContext = nil, nil
	}
	w.seen.Signs.CloseAll(w.clock.elapsed())
}
