package watchdog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
)

// Layer guards a part of the run, such as a phase, a step or a tool: a run of its own, "<run ID>/<name>", that begins
// now, whatever ran under that name before, inside this one's context and with its store and clock. Its wall clock is
// never more than what is left of this run less the reserve; a budget that names none gets all of that. It stands still
// while a hold stops this run's. Everything else of the budget is the layer's own. What it signals are signals of this
// run too, and its holds hold this run as well. Its end leaves this run as it is; a cause names the run that ended the
// work.
//
// A layer is closed as any [Watchdog]. The error wraps [ErrInvalid] for a name that is empty, has a slash or a control
// character, or makes the layer's run ID too long, and for the budget; or [ErrEnded] if nothing is left of this run to
// work in, or for a nil Watchdog; or it is one of [New].
func (w *Watchdog) Layer(name string, budget Budget) (*Watchdog, error) {
	if w == nil {
		return nil, fmt.Errorf("layer %q: %w", name, errNoRun)
	}
	layer, err := w.layer(name, &budget)
	if err != nil {
		return nil, fmt.Errorf("layer %q of run %s: %w", name, w.id, err)
	}
	return layer, nil
}

func (w *Watchdog) layer(name string, budget *Budget) (*Watchdog, error) {
	if flaw := textFlaw(name, MaxAggregateID); flaw != "" {
		return nil, fmt.Errorf("%w layer name: it %s", ErrInvalid, flaw)
	}
	if strings.Contains(name, "/") {
		return nil, fmt.Errorf("%w layer name: a slash stands between a run and its layer; make a layer of the layer instead",
			ErrInvalid)
	}
	id := w.id + "/" + name
	if flaw := textFlaw(id, MaxAggregateID); flaw != "" {
		return nil, fmt.Errorf("%w layer name: with it the run ID %s", ErrInvalid, flaw)
	}
	if err := budget.check(); err != nil {
		return nil, err
	}
	at := w.lookNow() // a run that is late has ended
	left, err := w.leftForLayer(budget.Reserve, at)
	if err != nil {
		return nil, err
	}
	if left != NoLimit || budget.WallClock == 0 {
		budget.WallClock = min(off(budget.WallClock), left)
	}
	layer, err := w.beginLayer(id, budget, at)
	if errors.Is(err, ErrParentEnded) {
		return nil, fmt.Errorf("%w: %w", ErrEnded, w.cause())
	}
	return layer, err
}

// lookNow polls and returns the time afterwards.
func (w *Watchdog) lookNow() time.Time {
	now := clocks.Now(w.clock.other)
	if w.clock.other == nil && w.quietAt(now.Sub(w.clock.base.Time())) {
		return now
	}
	_ = w.poll()
	return clocks.Now(w.clock.other)
}

// leftForLayer is what a layer that begins now gets of this run at most. It must be more than the layer's own reserve.
func (w *Watchdog) leftForLayer(reserve time.Duration, now time.Time) (time.Duration, error) {
	left := w.remainingAt(now)
	switch {
	case w.Context().Err() != nil:
		return 0, fmt.Errorf("%w: %w", ErrEnded, w.cause())
	case left <= 0:
		return 0, fmt.Errorf("%w for new work: nothing is left of it", ErrEnded)
	case left <= reserve:
		return 0, fmt.Errorf("%w for new work: of the %v left the layer's Reserve of %v leaves nothing to work in", ErrEnded,
			left, reserve)
	}
	return left, nil
}

// beginLayer is begin for a layer. But for the budget, which was checked, its config is that of this run.
func (w *Watchdog) beginLayer(id string, budget *Budget, at time.Time) (*Watchdog, error) {
	run, ctx := Run{ID: id, Parent: w.id, StartedAt: at}, w.Context()
	if err := errors.Join(run.check(at), checkParent(ctx)); err != nil {
		return nil, err
	}
	made := &struct {
		Watchdog
		lineage lineage
	}{}
	layer := &made.Watchdog
	layer.id, layer.startedAt, layer.outer, layer.mu = id, record.Truncate(at), w, w.mu
	layer.trace, layer.clock.other, layer.settings = w.trace, w.clock.other, w.with(budget)
	layer.recorder.store, layer.recorder.timeout = w.recorder.store, w.recorder.timeout
	layer.recorder.clock, layer.recorder.inline = w.recorder.clock, w.recorder.inline
	layer.setUp(w.trace != nil || !w.disabled && budget.heedsSignals(), false)
	made.lineage.parentID = w.id
	layer.begun(ctx, &made.lineage, at)
	return layer, nil
}
