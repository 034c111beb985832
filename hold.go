package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A HoldLimit says how long a [Hold] may last. The zero value is the budget's limit.
type HoldLimit struct {
	// Cap is the longest that the hold may be open: zero means [Budget].Hold, [NoLimit] none. It trips by itself and
	// names the key.
	Cap time.Duration
}

// flaw says what is wrong with the limit, or nothing.
func (l HoldLimit) flaw() string {
	if l.Cap < 0 {
		return fmt.Sprintf("its Cap is %v; use a positive duration, 0 for the budget's or NoLimit", l.Cap)
	}
	return ""
}

// A Hold is a stretch in which silence is expected: a tool call in flight, a person's approval. While any hold is open,
// idle and no-progress do not run; when the last one closes they begin again from zero.
type Hold struct {
	w           *Watchdog
	key         string
	closed      bool  // guarded by w.mu
	outer       *Hold // the same on the run around a layer
	stopContext func() bool
}

// Hold opens a hold under a key. [Hold.Close] closes it, or the end of the context, whichever comes first. Prefer [Watchdog.During], which closes it whatever happens.
//
// The error wraps [ErrInvalid] for a key that is empty, too long or has control characters, and for a negative limit;
// [ErrHeld] if a hold with that key is open; or [ErrEnded] if the run has ended. On a nil Watchdog it does nothing.
func (w *Watchdog) Hold(ctx context.Context, key string, limit HoldLimit) (*Hold, error) {
	h, err := w.open(key, limit)
	if err != nil {
		return nil, fmt.Errorf("hold %q: %w", key, err)
	}
	if h != nil && ctx.Done() != nil {
		h.stopContext = context.AfterFunc(ctx, func() { h.release() })
	}
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
// with its run. Closing a nil Hold does nothing.
func (h *Hold) Close() bool {
	if h == nil {
		return false
	}
	if h.stopContext != nil {
		h.stopContext()
	}
	return h.release()
}

func (h *Hold) release() bool {
	if h.outer != nil {
		h.outer.release()
	}
	released := false
	h.w.change(func() {
		released = h.w.phase == running && !h.closed
		if h.closed = true; released {
			h.w.signalTaken(Signal{Kind: SignalRelease, Key: h.key})
		}
	})
	return released
}

// open checks the hold and opens it, on the runs around a layer as well.
func (w *Watchdog) open(key string, limit HoldLimit) (*Hold, error) {
	if w == nil {
		return nil, nil
	}
	if flaw := textFlaw(key, MaxAggregateID); flaw != "" {
		return nil, fmt.Errorf("%w hold: its key %s", ErrInvalid, flaw)
	}
	if flaw := limit.flaw(); flaw != "" {
		return nil, fmt.Errorf("%w hold: %s", ErrInvalid, flaw)
	}
	if limit.Cap == 0 {
		limit.Cap = w.limits.holdCap
	}
	return w.openHere(key, limit.Cap)
}

func (w *Watchdog) openHere(key string, limit time.Duration) (*Hold, error) {
	h, err := &Hold{w: w, key: key}, error(nil)
	w.change(func() {
		switch {
		case w.phase != running:
			err = fmt.Errorf("%w: %w", ErrEnded, w.cause())
		case w.signs().Held(verdict.HoldID{Key: key}):
			err = fmt.Errorf("%w: close the other hold first, or give each a key of its own", ErrHeld)
		default:
			w.signalTaken(Signal{Kind: SignalHold, Key: key, Length: limit})
		}
	})
	if err != nil {
		return nil, err
	}
	if w.outer != nil {
		h.outer, _ = w.outer.openHere(w.id+"/"+key, NoLimit) // the outer run need not have one: this one ends with it
	}
	return h, nil
}
