package drive

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/oracle/history"
)

// mostRuns is how many runs and layers a process has open.
const mostRuns = 6

func (w *world) actOnLayer(op history.Op, p *process, rng *rand.Rand) {
	if op == history.LayerOpen {
		w.layer(guardOf(p, rng), rng)
		return
	}
	g := layerOf(p, rng)
	if g == nil {
		w.layer(guardOf(p, rng), rng)
		if g = layerOf(p, rng); g == nil {
			return
		}
	}
	switch op {
	case history.LayerClose:
		w.close(g)
		w.drop(g)
	case history.LayerDone:
		w.endRun(g, rng)
	case history.LayerPass:
		w.passTo(g, rng)
	case history.LayerSign:
		w.sign(g, rng)
	case history.LayerExtend:
		if chance(rng, 2) {
			w.extendSpend(g, rng)
		} else {
			w.extend(g, rng)
		}
	case history.LayerAsk:
		switch rng.IntN(3) {
		case 0:
			w.ask(g, rng)
		case 1:
			w.try(g, rng)
		default:
			w.turn(g, rng)
		}
	}
}

// layerOf draws a layer of the process, nil if it has none.
func layerOf(p *process, rng *rand.Rand) *guard {
	var layers []*guard
	for _, g := range p.runs {
		if g.outer != nil {
			layers = append(layers, g)
		}
	}
	if len(layers) == 0 {
		return nil
	}
	return layers[rng.IntN(len(layers))]
}

// layer opens a layer in the run.
func (w *world) layer(g *guard, rng *rand.Rand) {
	p := g.proc
	if len(p.runs) >= mostRuns {
		g = layerOf(p, rng)
		if g == nil {
			return
		}
		w.close(g)
		w.drop(g)
		return
	}
	name := pick(rng, "plan", "step", "step")
	budget := w.drawLayer(g, rng)
	label := w.label(g.name + "/" + name)
	var wd *watchdog.Watchdog
	outer := g.wd
	w.callThen(fmt.Sprintf("Layer %s %+v", label, budget), func() string {
		var err error
		wd, err = outer.Layer(name, budget)
		if err != nil {
			return errText(err)
		}
		return fmt.Sprintf("ok %s in %s, %s", wd.ID(), wd.Parent(), wd.StartedAt().Format(stampFormat))
	}, func() {
		if wd != nil {
			w.take(p, &guard{proc: p, name: label, session: g.session, wd: wd, budget: budget, outer: g}, false)
		}
	})
}

// drawLayer draws the budget of a layer. Where timers end runs, its wall clock does not end with that of the run around
// it: which of two timers is first at one moment is left to chance.
func (w *world) drawLayer(g *guard, rng *rand.Rand) watchdog.Budget {
	budget := watchdog.Budget{}
	if wall := pick(rng, 0, time.Minute, 5*time.Minute, 30*time.Minute); !chance(rng, 3) {
		budget = drawBudget(rng, wall)
	}
	left := g.wd.Remaining()
	if w.setup.pollOnly || left == watchdog.NoLimit || left <= time.Second {
		return budget
	}
	most := left - time.Microsecond - time.Duration(rng.Int64N(int64(left/2)))
	if budget.WallClock == 0 || budget.WallClock > most {
		budget.WallClock = most
		budget.Reserve = min(budget.Reserve, most/3)
	}
	return budget
}
