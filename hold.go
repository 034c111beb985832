package watchdog

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A HoldLimit says how long a [Hold] may last, and how silent it may be. The zero value is the budget's cap, and any
// silence.
type HoldLimit struct {
	// Cap is the longest that the hold may be open: zero means [Budget].Hold, [NoLimit] none. It trips by itself and
	// names the key. What it ends, by [Ladders].Hold, is the run, and not the work under the hold: a tool that may take
	// too long while the run goes on is bounded by package bound, or by a [Watchdog.Layer].
	Cap time.Duration
	// Idle is how long the run may give no sign of life while the hold is open, such as a tool that streams: activity
	// renews it, and so does each opening and closing of a hold. Of several open holds the longest Idle counts. It trips
	// as [Budget].Idle does, which may be off, with [Ladders].Idle, the code [IdleExceeded] and the hold's key. Zero and
	// [NoLimit] mean no limit: while such a hold is open, the run may be silent.
	Idle time.Duration
	// PausesWallClock has the wall clock stand still while the hold is open, for its Cap at most: for a person's
	// approval. It needs a Cap. In its own process the pause counts from its opening to its release, at once, whatever
	// the store says. Both are recorded, as [event.Hold] and [event.Release]; other processes, and a restart, count what
	// the store has, and a stop that one of them stored before stands. All layers of the run stand still with it, whether
	// they begin before or meanwhile, and whichever of them has the hold. [Budget].Safety goes on.
	//
	// A hold that another process has open, or left open when it was killed, allows any silence. Opening one with its key
	// takes it over if its process is known to be gone: one of this machine and container that has ended, or of an earlier
	// attempt by the [Config].Keeper. The hold that takes over lasts for what is left of the first Cap. If nothing is
	// known of its process, as of one on another host without a Keeper, or if it lives, both are open: the wall clock
	// stands still until each is closed or its Cap is over.
	PausesWallClock bool
}

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
	r    *run
	hold *machine.Hold
	// context is its registration with the context that it was opened with, which can be the host's code.
	context driver.Dependent
}

// Hold opens a hold under a key. [Hold.Close] closes it, or the end of the context or of the run, whichever comes
// first. Prefer [Watchdog.During], which closes it whatever happens.
//
// The error wraps [ErrInvalid] for a key that is empty, too long or has control characters, for a negative limit, and
// for a nil context; [ErrHeld] if this process has a hold with that key open; or [ErrEnded] if the run has ended. On a
// nil Watchdog it does nothing.
func (w *Watchdog) Hold(ctx context.Context, key string, limit HoldLimit) (*Hold, error) {
	if w == nil {
		return nil, nil
	}
	if ctx == nil {
		return nil, fmt.Errorf("hold %q: %w hold: its context is nil; use context.Background() for none", key, ErrInvalid)
	}
	h, err := w.r.open(key, limit)
	if err != nil {
		return nil, fmt.Errorf("hold %q: %w", key, err)
	}
	h.closeWith(ctx)
	return h, nil
}

// closeWith has the end of the context close the hold. That can be the host's code: if it panics, nothing is open.
func (h *Hold) closeWith(ctx context.Context) {
	done := false
	defer func() {
		if !done {
			h.Close()
		}
	}()
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { h.Close() })
		if !h.context.Register(&h.r.Run, stop, h.hold.Closed) {
			stop()
		}
	}
	done = true
}

// During runs the work under a hold, which is closed when it returns or panics. An empty key is drawn, so that the same
// tool can run twice at once; a hold that another process shall take over, such as for an approval that stops the wall
// clock, needs a key of the host's. The error is the work's, or that of [Watchdog.Hold]; then the work was not begun.
func (w *Watchdog) During(
	ctx context.Context, key string, limit HoldLimit, work func(context.Context) error,
) error {
	if key == "" {
		key = rand.Text()
	}
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
	if h == nil {
		return false
	}
	in := machine.Input{Kind: machine.CloseHold, Hold: h.hold}
	r := h.r
	k := r.Tree.Step(&r.Run, &in)
	k.Pass(r.Tree, k.At)
	if stop := h.context.End(&r.Run); stop != nil {
		stop()
	}
	return in.Done
}

// open checks the hold and opens it, on the runs around a layer as well. It waits for a stop that is being recorded.
func (r *run) open(key string, limit HoldLimit) (*Hold, error) {
	if flaw := event.Flaw(key, event.MaxAggregateID); flaw != "" {
		return nil, fmt.Errorf("%w hold: its key %s", ErrInvalid, flaw)
	}
	if limit.Cap == 0 {
		limit.Cap = r.limits.holdCap
	}
	if flaw := limit.flaw(); flaw != "" {
		return nil, fmt.Errorf("%w hold: %s", ErrInvalid, flaw)
	}
	in := machine.Input{
		Kind: machine.OpenHold, ID: verdict.HoldID{Key: key}, Pauses: limit.PausesWallClock,
		Limits: verdict.HoldLimits{Cap: limit.Cap, Idle: limit.Idle},
	}
	r.OpenAs(&in, r.attempt)
	r.TakeAside(&in)
	switch {
	case in.Hold != nil:
		return &Hold{r: r, hold: in.Hold}, nil
	case in.Held:
		return nil, fmt.Errorf("%w: close the other hold first, or give each a key of its own", ErrHeld)
	}
	return nil, r.errEnded()
}
