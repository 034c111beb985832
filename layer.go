package watchdog

import (
	"fmt"
	"strings"
)

// Layer guards a part of the run, such as a phase, a step or a tool: a run of its own, "<run ID>/<name>", that begins
// now, inside this one's context and with its store and clock. Its wall clock is never more than what is left of this
// run less the reserve; a budget that names none gets all of that. Everything else of the budget is the layer's own.
// What it signals are signals of this run too, and its holds hold this run as well. Its end leaves this run as it is; a
// cause names the run that ended the work.
//
// A layer is closed as any [Watchdog]. The error wraps [ErrInvalid] for a name that is empty, has a slash or a control
// character, or makes the layer's run ID too long, and for the budget; or [ErrEnded] if nothing is left of this run, or
// for a nil Watchdog; or it is one of [New].
func (w *Watchdog) Layer(name string, budget Budget) (*Watchdog, error) {
	if w == nil {
		return nil, fmt.Errorf("layer %q: %w", name, errNoRun)
	}
	layer, err := w.layer(name, budget)
	if err != nil {
		return nil, fmt.Errorf("layer %q of run %s: %w", name, w.id, err)
	}
	return layer, nil
}

func (w *Watchdog) layer(name string, budget Budget) (*Watchdog, error) {
	if flaw := textFlaw(name, MaxAggregateID); flaw != "" {
		return nil, fmt.Errorf("%w layer name: it %s", ErrInvalid, flaw)
	}
	if strings.Contains(name, "/") {
		return nil, fmt.Errorf("%w layer name: a slash stands between a run and its layer; make a layer of the layer instead",
			ErrInvalid)
	}
	left := w.Remaining()
	if left <= 0 {
		return nil, fmt.Errorf("%w: nothing is left of it: %w", ErrEnded, w.cause())
	}
	if left != NoLimit || budget.WallClock == 0 {
		budget.WallClock = min(off(budget.WallClock), left)
	}
	cfg := w.layerConfig(budget)
	return attach(w.Context(), Run{ID: w.id + "/" + name, StartedAt: w.clock.now(), Parent: w.id}, &cfg, w, false)
}

// layerConfig is the config of this run with another budget.
func (w *Watchdog) layerConfig(budget Budget) Config {
	return Config{
		Store: w.recorder.store, Budget: budget, RecordTimeout: w.recorder.timeout, PollOnly: w.pollOnly,
		ObserveOnly: w.observeOnly, OnWarning: w.onWarning, Logger: w.logger, Clock: w.clock.other,
	}
}
