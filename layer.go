package watchdog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/machine"
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
	layer, err := w.r.layer(w.Context(), name, &budget)
	if err != nil {
		return nil, fmt.Errorf("layer %q of run %s: %w", name, w.r.Node.Run, err)
	}
	return layer, nil
}

func (r *run) layer(ctx context.Context, name string, budget *Budget) (*Watchdog, error) {
	id, err := r.layerID(name)
	if err != nil {
		return nil, err
	}
	budget.WallClock = off(budget.WallClock)
	if err := budget.check(); err != nil {
		return nil, err
	}
	at := r.LookNow() // a run that is late has ended
	left, err := r.leftForLayer(budget.Reserve, at)
	if err != nil {
		return nil, err
	}
	budget.WallClock = min(budget.WallClock, left)
	layer, err := r.beginLayer(ctx, id, budget, at)
	if errors.Is(err, ErrParentEnded) {
		return nil, r.errEnded()
	}
	return layer, err
}

func (r *run) layerID(name string) (string, error) {
	if flaw := event.Flaw(name, event.MaxAggregateID); flaw != "" {
		return "", fmt.Errorf("%w layer name: it %s", ErrInvalid, flaw)
	}
	if strings.Contains(name, "/") {
		return "", fmt.Errorf("%w layer name: a slash stands between a run and its layer; make a layer of the layer instead",
			ErrInvalid)
	}
	id := r.Node.Run + "/" + name
	if flaw := event.Flaw(id, event.MaxAggregateID); flaw != "" {
		return "", fmt.Errorf("%w layer name: with it the run ID %s", ErrInvalid, flaw)
	}
	return id, nil
}

// leftForLayer is what a layer that begins now gets of this run at most. It must be more than the layer's own reserve,
// unless this run's limits end nothing.
func (r *run) leftForLayer(reserve time.Duration, now time.Time) (time.Duration, error) {
	left := r.RemainingAt(now)
	switch {
	case r.ended():
		return 0, r.errEnded()
	case left > reserve:
		return left, nil
	case r.Node.ObserveOnly:
		return NoLimit, nil
	}
	return 0, fmt.Errorf("%w for new work: of the %v left the layer's Reserve of %v leaves nothing to work in", ErrEnded,
		left, reserve)
}

// beginLayer begins a layer. But for the budget, which was checked, its config is that of this run.
func (r *run) beginLayer(ctx context.Context, id string, budget *Budget, at time.Time) (*Watchdog, error) {
	named := Run{ID: id, Parent: r.Node.Run, StartedAt: at}
	if err := errors.Join(named.check(at), checkParent(ctx)); err != nil {
		return nil, err
	}
	w := &Watchdog{}
	layer := &w.r
	layer.settings = r.settings
	layer.limits = budget.shared()
	layer.InitLayer(ctx, &r.Run, layer, machine.Name{
		Run: id, Parent: r.Node.Run, StartedAt: event.Truncate(at), Begins: true,
	})
	layer.Node.Rules = r.Node.Rules
	layer.Node.Rules.Limits, layer.Node.Rules.Records = &layer.limits.Limits, false
	layer.setUp(!r.Node.Disabled && budget.heedsSignals())
	layer.BeginLayer(at.Sub(layer.Node.StartedAt), nil, at)
	return w, nil
}

// Try runs the work once, under a context that belongs to the run and ends when the run asks for it to be done again or
// in another way: at [DirectiveRetry] and [DirectiveUnstuck], with the [*Directive] as its cause. It ends also with ctx
// and with the run, with their causes. So a ladder reaches work that hangs in a call. Try never loops: the host does.
//
//	for {
//		err := wd.Try(ctx, step)
//		if again := (*watchdog.Directive)(nil); !errors.As(err, &again) {
//			return err
//		}
//	}
//
// Try returns nil if the work did, whatever ended meanwhile, and otherwise the work's error, wrapped with the cause if
// the context has ended. It waits for the work: use package bound for work that may ignore its context. A directive
// that is given while no Try is open ends none. Several may be open at once, each ends. If the run has ended, Try
// returns an error that wraps [ErrEnded] and does not begin the work. On a nil Watchdog it runs the work under ctx.
func (w *Watchdog) Try(ctx context.Context, work func(context.Context) error) error {
	if w == nil {
		return work(ctx)
	}
	within, cancel := context.WithCancelCause(ctx)
	t := &try{Context: within, of: w}
	if err := t.begin(cancel); err != nil {
		cancel(err)
		return fmt.Errorf("try in run %s: %w", w.r.Node.Run, err)
	}
	defer func() {
		t.work.End(&w.r.Run)
		cancel(context.Canceled)
	}()
	err := work(t)
	if cause := context.Cause(t); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// A try is work that a directive or the end of the run ends, and the context of it.
type try struct {
	context.Context
	of   *Watchdog
	work driver.Dependent
}

// Value finds the run whose work it is, which has the signs of life that are none of a timer's inside.
func (t *try) Value(key any) any {
	value := t.Context.Value(key)
	_, timer := value.(handle.Timer)
	if key == (handle.Key{}) || key == (handle.SignsKey{}) && !timer {
		return (*runHandle)(t.of)
	}
	return value
}

func (t *try) begin(cancel context.CancelCauseFunc) error {
	r := &t.of.r
	_ = t.of.Stop() // a run that is late has ended
	r.CheckParent()
	if !t.work.Begin(&r.Run, cancel) {
		return r.errEnded()
	}
	return nil
}
