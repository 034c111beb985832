package watchdog_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

// attach is New or Resume.
func (h *pastimes) attach(p *process, resume bool) {
	w, start := h.persisted, h.persisted.start
	run := watchdog.Run{ID: "s-1", Continue: h.continues}
	if h.continues {
		start = h.begun(p)
	} else {
		if h.steady && w == h.windows[len(h.windows)-1] && len(w.counts) > 0 {
			start = h.inexact(w)
		}
		run.StartedAt = start
	}
	attach := watchdog.New
	if resume {
		attach = watchdog.Resume
	}
	wd, err := attach(context.Background(), run, p.cfg)
	w, want := h.modelAttach(p, start, resume)
	h.say("%s: attach with %v at %v, resume %v: %v", p.name, start, p.host.clock.Now(), resume, err)
	if !h.agree("attach", err, want) || err != nil {
		return
	}
	if !wd.StartedAt().Equal(w.start) {
		h.fail("the window began at %v, want %v", wd.StartedAt(), w.start)
	}
	g := &guarded{name: p.name, wd: wd, model: takeUp(p, w, h.budget)}
	g.model.look()
	p.runs = []*guarded{g}
	if h.chance(2) {
		h.persisted = w
	}
}

// begun is the start that the store has for a process: that of a resume which is not in its future, of the last one if
// it can ask for that alone, or the run's first.
func (h *pastimes) begun(p *process) time.Time {
	resumed := slices.SortedFunc(slices.Values(h.windows[1:]), func(a, b *modelWindow) int {
		return a.start.Compare(b.start)
	})
	for _, w := range slices.Backward(resumed) {
		if !p.host.future(w.start) {
			return w.start
		}
		if p.host.transactional {
			break
		}
	}
	return h.windows[0].start
}

// inexact is a start as a host may have kept it that rounds.
func (h *pastimes) inexact(w *modelWindow) time.Time {
	start := w.start.Add(h.duration(2*time.Second) - time.Second).Truncate(time.Microsecond)
	if stop := w.stop(); stop != nil && start.After(stop.at) {
		return w.start
	}
	return start
}

func (h *pastimes) modelAttach(p *process, start time.Time, resume bool) (*modelWindow, error) {
	w, future := h.windows[len(h.windows)-1], p.host.future
	switch {
	case !h.continues && future(start):
		return nil, watchdog.ErrInvalid
	case !p.host.fault.reads():
		return nil, errDiskFull
	case future(start):
		return nil, watchdog.ErrInvalid
	case resume && (w.complete() || w.stop() != nil || future(w.start)):
		return h.modelResume(p)
	case w.complete():
		return nil, watchdog.ErrComplete
	case future(w.start):
		return nil, watchdog.ErrInvalid
	}
	return w, nil
}

func (h *pastimes) modelResume(p *process) (*modelWindow, error) {
	if !p.host.fault.writes() {
		return nil, errDiskFull
	}
	w := h.openWindow(p.host.now())
	if !p.host.fault.says() {
		return nil, errDiskFull
	}
	return w, nil
}

// openWindow opens the next of the chain, under a start that no other has.
func (h *pastimes) openWindow(start time.Time) *modelWindow {
	for slices.ContainsFunc(h.windows, func(w *modelWindow) bool { return w.start.Equal(start) }) {
		start = start.Add(time.Microsecond)
	}
	w := newModelWindow(start)
	w.keep(&modelFact{kind: "resume"})
	h.windows = append(h.windows, w)
	return w
}

// detach closes a process's watchdogs, or kills it.
func (h *pastimes) detach(p *process, kill bool) {
	h.say("%s: ends, killed %v", p.name, kill)
	if !kill {
		runs := slices.Clone(p.runs)
		if h.chance(2) {
			slices.Reverse(runs)
		}
		for _, g := range runs {
			h.close(g)
		}
	}
	p.runs = nil
}

func (h *pastimes) close(g *guarded) {
	if err, stored := g.wd.Close(), g.model.close(); (err == nil) != stored {
		h.fail("close of %s: %v, everything is stored: %v", g.name, err, stored)
	}
}

// foreign is a cancel by somebody who derives no IDs.
func (h *pastimes) foreign(p *process) {
	w := p.runs[0].model.window
	stop := &modelEnd{code: "user_cancelled", rung: 1, at: p.host.now()}
	h.say("a foreign cancel of the window of %v", w.start)
	h.database.keep([]watchdog.Event{{
		ID:            fmt.Sprintf("0-%d-%s", len(w.foreign), w.start.Format("150405.000000")),
		AggregateType: watchdog.AggregateType, AggregateID: "s-1", Type: watchdog.EventCancel, Timestamp: stop.at,
		Payload: fmt.Appendf(nil, `{"reason":"user_cancelled","session_started_at":%q,"fired_at":%q}`,
			w.start.Format(time.RFC3339Nano), stop.at.Format(time.RFC3339Nano)),
	}})
	w.foreign = append(w.foreign, stop)
	w.counts["cancel"]++
}

func (h *pastimes) complete(g *guarded) {
	h.say("%s: complete", g.name)
	h.agree("complete", g.wd.Complete(), g.model.finish())
}

func (h *pastimes) cancel(g *guarded) {
	h.say("%s: cancel", g.name)
	stop, err := g.wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
	code, want := g.model.cancel("host_gone")
	if h.agree("cancel", err, want) && err == nil && stop.Code != code {
		h.fail("cancel: stopped by %s, want %s", stop.Code, code)
	}
}

func (h *pastimes) extend(g *guarded) {
	d := h.duration(20*time.Minute) + time.Microsecond
	h.say("%s: extend by %v", g.name, d)
	h.agree("extend", g.wd.Extend(d), g.model.extend(d))
}

func (h *pastimes) sync(g *guarded) {
	h.say("%s: sync", g.name)
	_, err := g.wd.Sync(context.Background())
	h.agree("sync", err, g.model.sync())
}

func (h *pastimes) signal(g *guarded) {
	switch n := h.rng.IntN(6); {
	case n < 2:
		h.say("%s: activity", g.name)
		g.wd.Activity()
		g.model.signal(false)
	case n < 4:
		h.say("%s: progress", g.name)
		g.wd.Progress()
		g.model.signal(true)
	default:
		digest := []string{"red", "green"}[n-4]
		h.say("%s: digest %s", g.name, digest)
		if got, want := g.wd.ProgressDigest(digest), g.model.digest(digest); got != want {
			h.fail("digest: %v, want %v", got, want)
		}
	}
}

func (h *pastimes) open(g *guarded) {
	key := []string{"tool", "approval"}[h.rng.IntN(2)]
	var limit watchdog.HoldLimit
	if h.chance(2) {
		limit.Cap = time.Duration(len(key)) * 3 * time.Minute
	}
	limit.PausesWallClock = h.chance(2)
	if h.chance(2) {
		limit.Idle = time.Duration(1+h.rng.IntN(3)) * time.Minute
	}
	if limit.PausesWallClock && h.pausesBeginNow(g.model) { // which of two is the first is known to their process only
		h.passBy(h.duration(time.Second) + time.Microsecond)
		h.compare()
	}
	h.say("%s: hold %s %+v", g.name, key, limit)
	hold, err := g.wd.Hold(context.Background(), key, limit)
	model, want := g.model.hold(key, limit)
	if h.agree("hold", err, want) && err == nil {
		g.holds = append(g.holds, heldBoth{hold, model})
	}
}

// burst is more than waits for a store that takes nothing.
func (h *pastimes) burst(p *process) {
	p.host.fault = []fault{noWrites, noAnswers, noHolds}[h.rng.IntN(3)]
	p.connection.fault = p.host.fault
	h.say("%s: a burst with fault %d", p.name, p.host.fault)
	g := p.runs[0]
	for i := range 25 + h.rng.IntN(25) {
		key := fmt.Sprint("burst ", i)
		h.passBy(h.duration(time.Second) + time.Microsecond)
		h.compare()
		limit := watchdog.HoldLimit{Cap: time.Hour, PausesWallClock: true}
		hold, err := g.wd.Hold(context.Background(), key, limit)
		model, want := g.model.hold(key, limit)
		if !h.agree("hold", err, want) || err != nil || h.flaw != "" {
			return
		}
		g.holds = append(g.holds, heldBoth{hold, model})
		h.passBy(h.duration(time.Second) + time.Microsecond)
		h.compare()
		if !h.chance(9) {
			hold.Close()
			model.release()
		}
	}
}

func (h *pastimes) pausesBeginNow(r *modelRun) bool {
	now := r.elapsed.Truncate(time.Microsecond)
	for _, p := range h.processes {
		for _, g := range p.runs {
			if slices.ContainsFunc(g.model.pauses, func(p modelKnown) bool { return p.opened == now }) {
				return true
			}
		}
	}
	return slices.ContainsFunc(r.window.pauses, func(p *modelPause) bool { return p.opened == now })
}

func (h *pastimes) release(g *guarded) {
	if len(g.holds) == 0 {
		return
	}
	held := g.holds[h.rng.IntN(len(g.holds))]
	h.say("%s: release %s", g.name, held.model.key)
	if got, want := held.hold.Close(), held.model.release(); got != want {
		h.fail("release: %v, want %v", got, want)
	}
}

// begin begins a layer, whatever ran under its name before.
func (h *pastimes) begin(p *process, g *guarded) {
	if len(p.runs) > 2 {
		return
	}
	budget := h.newBudget(20 * time.Minute)
	if h.chance(3) && budget.Reserve == 0 {
		budget.WallClock = 0
	}
	wd, err := g.wd.Layer("step", budget)
	model, want := g.model.layer(budget)
	h.say("%s: layer of %+v: %v", p.name, budget, err)
	if !h.agree("layer", err, want) || err != nil {
		return
	}
	h.layers = append(h.layers, model.window)
	p.runs = append(p.runs, &guarded{name: fmt.Sprintf("%s/step %d", p.name, len(h.layers)), wd: wd, model: model})
	model.look()
}

func (h *pastimes) closeLayer(p *process, g *guarded) {
	h.say("%s: close", g.name)
	h.close(g)
	p.runs = slices.DeleteFunc(p.runs, func(other *guarded) bool { return other == g })
}
