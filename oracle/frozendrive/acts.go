package drive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen"
	"github.com/seed62658d38/watchdog/oracle/frozen/inside"
	"github.com/seed62658d38/watchdog/oracle/history"
)

// act has one thing happen.
func (w *world) act(op history.Op, rng *rand.Rand) {
	p := w.procs[min(rng.IntN(3), 1)^1] // one of the two has more to do
	w.say(history.Did, "%v of %s at +%v", op, p.name, w.sinceBegin())
	if len(p.runs) == 0 {
		w.attach(p, rng)
		if len(p.runs) == 0 {
			return
		}
	}
	switch op.Class() {
	case history.Holds:
		w.actOnHold(op, p, rng)
	case history.Charges:
		w.actOnCharge(op, p, rng)
	case history.Layers:
		w.actOnLayer(op, p, rng)
	case history.Store:
		w.actOnStore(op, p, rng)
	default:
		w.actElse(op, p, rng)
	}
}

// guardOf draws a run or a layer of the process.
func guardOf(p *process, rng *rand.Rand) *guard { return p.runs[rng.IntN(len(p.runs))] }

// sessionOf draws a session of the process.
func sessionOf(p *process, rng *rand.Rand) *guard {
	g := guardOf(p, rng)
	for g.outer != nil {
		g = g.outer
	}
	return g
}

// actElse is what no other class has.
func (w *world) actElse(op history.Op, p *process, rng *rand.Rand) {
	g := guardOf(p, rng)
	switch op {
	case history.Pass:
		w.passSome(rng)
	case history.LimitPass:
		w.passTo(g, rng)
	case history.Sign:
		w.sign(g, rng)
	case history.Extend:
		w.extend(g, rng)
	case history.End:
		w.endRun(g, rng)
	case history.Restart:
		w.restart(p, rng)
	case history.Attach:
		w.attach(p, rng)
	case history.Ask:
		w.ask(g, rng)
	case history.Try:
		w.try(g, rng)
	case history.Turn:
		w.turn(g, rng)
	case history.ParentEnd:
		w.parentEnd(p, rng)
	case history.Busy:
		p.setBusy(busyKind(rng.IntN(int(busyKinds))))
	case history.ClockStep:
		w.stepClock(rng)
	case history.WrongInput:
		w.wrongInput(g, rng)
	case history.GuardedLoop:
		w.guardedLoop(p, rng)
	case history.ActInside:
		n, l := rng.IntN(inside.Acts), p.life
		w.call(fmt.Sprintf("act %d inside %s", n, g.name), func() string {
			return inside.Act(g.wd.Context(), n, func() { p.hear(l, history.Told, g.name, "a pause ends") })
		})
	}
}

func (w *world) passSome(rng *rand.Rand) {
	most := pick(rng, time.Millisecond, time.Second, time.Minute, 20*time.Minute, 2*time.Hour)
	d := time.Duration(rng.Int64N(int64(most)))
	w.say(history.Did, "pass %v", d)
	w.pass(d)
}

// passTo lets time pass to a limit, as far as a host can know of it.
func (w *world) passTo(g *guard, rng *rand.Rand) {
	edges := w.edges(g)
	d := edges[rng.IntN(len(edges))]
	d += pick(rng, 0, 1, 1, -1, time.Microsecond, time.Millisecond, time.Second)
	w.say(history.Did, "pass %v to a limit of %s", d, g.name)
	if d > 0 && d < 6*time.Hour {
		w.pass(d)
	}
}

// edges are how long it is to limits of the run.
func (w *world) edges(g *guard) []time.Duration {
	now, b := w.sinceBegin(), &g.budget
	edges := []time.Duration{time.Second}
	if left := g.wd.Remaining(); left != watchdog.NoLimit {
		edges = append(edges, left, left, left-left/5)
	}
	if b.WallClock != watchdog.NoLimit && b.WallClock > 0 {
		left := b.WallClock - g.wd.Elapsed()
		edges = append(edges, left-b.WallClock/5, left)
	}
	if b.Idle > 0 {
		edges = append(edges, b.Idle-g.wd.SinceActivity(), b.Idle)
	}
	if b.NoProgress > 0 {
		edges = append(edges, g.signed+b.NoProgress-now)
	}
	if b.Safety > 0 {
		edges = append(edges, g.began+b.Safety-now)
	}
	if b.FirstSign > 0 {
		edges = append(edges, g.began+b.FirstSign-now)
	}
	return edges
}

// attach attaches the process to a session that it has not, if there is one.
func (w *world) attach(p *process, rng *rand.Rand) {
	free := slices.DeleteFunc(slices.Clone(sessions), func(id string) bool {
		return slices.ContainsFunc(p.runs, func(g *guard) bool { return g.outer == nil && g.session == id })
	})
	if len(free) == 0 {
		return
	}
	id := free[0] // most of the time both have the same
	if chance(rng, 4) {
		id = free[rng.IntN(len(free))]
	}
	w.attachTo(p, id, chance(rng, 3), rng)
}

func (w *world) attachTo(p *process, id string, resume bool, rng *rand.Rand) {
	attach, name := watchdog.New, "New"
	if resume {
		attach, name = watchdog.Resume, "Resume"
	}
	cfg, run := p.cfg, watchdog.Run{ID: id, StartedAt: w.setup.starts[id]}
	ctx, cancel := p.inner, func() {}
	if chance(rng, 20) && w.mock == nil {
		ctx, cancel = context.WithTimeout(ctx, 10*time.Minute)
	}
	label := w.label(p.name + "/" + id)
	var wd *watchdog.Watchdog
	w.callThen(name+" "+label, func() string {
		var err error
		wd, err = attach(ctx, run, cfg)
		if err != nil {
			cancel()
			return errText(err)
		}
		return fmt.Sprintf("ok %s %s %+v", wd.ID(), wd.StartedAt().Format(stampFormat), wd.Attempt())
	}, func() {
		if wd != nil {
			w.take(p, &guard{proc: p, name: label, session: id, wd: wd, budget: cfg.Budget}, chance(rng, 2))
		}
	})
}

// take has the process have the run from now on.
func (w *world) take(p *process, g *guard, persists bool) {
	g.began = w.sinceBegin()
	g.signed = g.began
	if g.outer == nil && persists {
		w.setup.starts[g.session] = g.wd.StartedAt()
	}
	if p.conn.isCut() || g.outer != nil && g.outer.closed {
		w.closed = append(w.closed, g)
		return
	}
	p.runs = append(p.runs, g)
}

// close closes a run and lets go of it, once that has returned.
func (w *world) close(g *guard) {
	wd := g.wd
	w.call("Close "+g.name, func() string { return errText(wd.Close()) })
}

// drop lets go of a run and the layers in it.
func (w *world) drop(g *guard) {
	p := g.proc
	p.runs = slices.DeleteFunc(p.runs, func(other *guard) bool {
		for o := other; o != nil; o = o.outer {
			if o == g {
				other.closed = true
				w.closed = append(w.closed, other)
				return true
			}
		}
		return false
	})
}

// restart closes the process's runs, or kills it.
func (w *world) restart(p *process, rng *rand.Rand) {
	if chance(rng, 2) {
		w.kill(p, rng)
		return
	}
	runs := slices.Clone(p.runs)
	if chance(rng, 2) {
		slices.Reverse(runs)
	}
	for _, g := range runs {
		w.close(g)
	}
	p.runs = nil
	w.closed = append(w.closed, runs...)
	w.attach(p, rng)
}

// kill ends the process. Nothing of it is heard any more, and it has another connection from then on.
func (w *world) kill(p *process, rng *rand.Rand) {
	w.say(history.Did, "%s is killed", p.name)
	old := &process{w: w, name: p.name, conn: p.conn, inner: p.inner, end: p.end}
	for _, g := range p.runs {
		g.proc, g.closed = old, true
	}
	w.closed = append(w.closed, p.runs...)
	p.runs = nil
	p.conn.cut()
	p.conn = newConn(w.db, p.name)
	p.renew()
	if !w.setup.forgets {
		p.cfg.Store, p.cfg.SpendStore = p.store(), p.conn.spend
	}
	p.rebirth(p.cfg.OnSignal != nil, p.cfg.OnWarning != nil, 0)
	w.attach(p, rng)
}

func (w *world) parentEnd(p *process, rng *rand.Rand) {
	cause := pick(rng, context.Canceled, errors.New("the host shuts down"))
	w.say(history.Did, "the parent of %s ends with %v", p.name, cause)
	p.end(cause)
	w.settle()
	p.renew()
}

func (w *world) stepClock(rng *rand.Rand) {
	if w.setup.stepClock == nil {
		return
	}
	to := time.Duration(rng.Int64N(int64(4*time.Minute))) - 2*time.Minute
	w.say(history.Did, "the clock is set %v ahead", to)
	w.setup.stepClock(to)
}

// endRun ends a run, or closes it.
func (w *world) endRun(g *guard, rng *rand.Rand) {
	wd := g.wd
	switch rng.IntN(8) {
	case 0, 1:
		w.call("Complete "+g.name, func() string { return errText(wd.Complete()) })
	case 2, 3:
		c := watchdog.Cancellation{
			Reason:  pick(rng, watchdog.OscillationDetected, watchdog.IdleExceeded, "host_gone", "Bad Code"),
			Elapsed: pick(rng, 0, time.Minute), Budget: pick(rng, 0, time.Second), ObserveOnly: chance(rng, 6),
		}
		w.call(fmt.Sprintf("Cancel %s %+v", g.name, c), func() string {
			stop, err := wd.Cancel(c)
			return stopText(stop) + " " + errText(err)
		})
	case 4, 5:
		w.call("Interrupt "+g.name, func() string { return errText(wd.Interrupt("SIGTERM")) })
	default:
		w.close(g)
		if chance(rng, 2) {
			w.close(g)
		}
		w.drop(g)
	}
}

func (w *world) extend(g *guard, rng *rand.Rand) {
	d := length(rng, pick(rng, time.Second, 10*time.Minute, time.Hour)) + time.Duration(rng.IntN(2000))
	wd := g.wd
	w.call(fmt.Sprintf("Extend %s %v", g.name, d), func() string { return errText(wd.Extend(d)) })
}

// sign gives a signal, or notes something.
func (w *world) sign(g *guard, rng *rand.Rand) {
	wd := g.wd
	switch n := rng.IntN(10); {
	case n < 4:
		w.call("Activity "+g.name, func() string { wd.Activity(); return "" })
	case n < 6:
		g.signed = w.sinceBegin()
		w.call("Progress "+g.name, func() string { wd.Progress(); return "" })
	case n < 8:
		digest := pick(rng, "red", "green")
		w.call("ProgressDigest "+g.name+" "+digest, func() string { return fmt.Sprint(wd.ProgressDigest(digest)) })
	case n < 9:
		kind := pick(rng, "file.written", "token", "other", watchdog.EventProgress)
		w.call("Observe "+g.name+" "+kind, func() string { return wd.Observe(kind) })
	default:
		note := pick(rng, "tool: grep", "tool: rm\tall", "")
		w.call("Note "+g.name, func() string { wd.Note(note); return wd.LastNote() })
	}
}
