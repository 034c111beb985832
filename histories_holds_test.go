package watchdog_test

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
)

// hold opens a hold, or takes over one whose process is gone.
func (r *modelRun) hold(key string, limit watchdog.HoldLimit) (*modelHold, error) {
	if limit.Cap == 0 {
		limit.Cap = limitOf(r.budget.Hold)
	}
	if limit.PausesWallClock && limit.Cap == watchdog.NoLimit {
		return nil, watchdog.ErrInvalid
	}
	r.look()
	if !r.running() {
		return nil, watchdog.ErrEnded
	}
	if h := r.held(key); h != nil {
		if !h.restored {
			return nil, watchdog.ErrHeld
		}
		h.restored, h.idle = false, limit.Idle
		r.known(h.pause).own = true
		r.opened(limit)
		return h, nil
	}
	h := &modelHold{
		run: r, key: key, opened: r.elapsed, limit: limit.Cap, idle: limit.Idle,
		rung: modelRung{rung: r.rungOf("hold", key), at: r.elapsed},
	}
	r.opened(limit)
	if limit.PausesWallClock {
		h.pause = r.pause(key, false, limit.Cap)
	}
	r.holds = append(r.holds, h)
	r.settle()
	if around := r.outer; around != nil && around.running() {
		h.outer = &modelHold{run: around, key: key, inside: true, opened: around.elapsed, limit: watchdog.NoLimit}
		if limit.PausesWallClock {
			around.takeLeft(key)
			h.outer.pause = around.pause(key, true, limit.Cap)
		}
		around.holds, around.changed = append(around.holds, h.outer), around.elapsed
		around.settle()
	}
	return h, nil
}

// opened notes that a hold was opened: it is life, and signals count from the first on that limits the silence.
func (r *modelRun) opened(limit watchdog.HoldLimit) {
	r.changed, r.heeding = r.elapsed, r.heeding || limit.Idle > 0
}

func (r *modelRun) held(key string) *modelHold {
	for _, h := range r.holds {
		if h.key == key && !h.inside {
			return h
		}
	}
	return nil
}

// settle is a look after a change, at a moment at which nothing can be exceeded.
func (r *modelRun) settle() {
	if r.due {
		r.due = false
		r.tryPending()
	}
}

// pause is a hold's that stops the wall clock, from now on.
func (r *modelRun) pause(key string, layer bool, limit time.Duration) *modelPause {
	p := &modelPause{key: key, layer: layer, opened: r.elapsed.Truncate(time.Microsecond), limit: limit}
	e := &modelEntry{opens: p, facts: []*modelFact{
		{kind: "hold", apply: func(w *modelWindow) { w.pauses = append(w.pauses, p) }},
	}}
	r.pend(e)
	r.pauses = append(r.pauses, modelKnown{p, *p, true})
	r.due = true
	return p
}

// unpause ends it, and the ladder of its hold.
func (r *modelRun) unpause(p *modelPause, ended []*modelDirective) {
	if p == nil && len(ended) == 0 {
		return
	}
	at := r.elapsed.Truncate(time.Microsecond)
	f := &modelFact{kind: "release", apply: endAll(ended)}
	if p != nil {
		f.key = [2]any{"release", p}
		f.apply = func(w *modelWindow) {
			endAll(ended)(w)
			p.closed, p.released = true, at
		}
	}
	r.pend(&modelEntry{facts: []*modelFact{f}, closes: p})
	if p != nil {
		known := r.known(p)
		known.own, known.closed, known.released = true, true, at
	}
	r.due = true
}

func (r *modelRun) known(p *modelPause) *modelKnown {
	for i := range r.pauses {
		if r.pauses[i].of == p {
			return &r.pauses[i]
		}
	}
	return nil
}

// closed reports whether the store knows that a hold which another process left open was closed by that.
func (n modelNews) closed(h *modelHold) bool {
	if h == nil || !h.restored {
		return false
	}
	i := slices.Index(n.of, h.pause)
	return i >= 0 && n.pauses[i].closed
}

// learnPauses counts what the store knows of other processes, and lets go of holds that the process which opened them
// has closed.
func (r *modelRun) learnPauses(news modelNews) {
	before := slices.Clone(r.pauses)
	r.pauses = r.pausesWith(news)
	for i, now := range r.pauses[:len(before)] {
		if now != before[i] {
			r.letGo(now.of)
		}
	}
}

// pausesWith is what is known of the pauses with what the store knows of those of other processes.
func (r *modelRun) pausesWith(news modelNews) []modelKnown {
	all := slices.Clone(r.pauses)
	for i, p := range news.pauses {
		at := slices.IndexFunc(all, func(known modelKnown) bool { return known.of == news.of[i] })
		switch {
		case at < 0:
			all = append(all, modelKnown{news.of[i], p, false})
		case !all[at].own && p.closed:
			all[at].modelPause = p
		}
	}
	return all
}

func (r *modelRun) letGo(p *modelPause) {
	before := len(r.holds)
	r.holds = slices.DeleteFunc(r.holds, func(h *modelHold) bool {
		h.closed = h.closed || h.restored && h.pause == p
		return h.closed
	})
	if len(r.holds) < before {
		r.changed = r.elapsed
	}
}

// takeLeft ends the pauses of layers of a process that is gone, whose hold is opened again.
func (r *modelRun) takeLeft(key string) {
	r.leftOpen = slices.DeleteFunc(r.leftOpen, func(p *modelPause) bool {
		if p.key == key {
			r.unpause(p, nil)
		}
		return p.key == key
	})
}

// release closes a hold, here and on the run around.
func (h *modelHold) release() bool {
	if h == nil || h.closed {
		return false
	}
	r := h.run
	recorded, _ := r.judge() // it may be over by now; nothing else can be
	r.due = r.due || recorded
	if h.closed {
		return false
	}
	h.closed = true
	r.holds = slices.DeleteFunc(r.holds, func(other *modelHold) bool { return other == h })
	r.changed = r.elapsed
	var ended []*modelDirective
	if !h.inside {
		ended = r.over(func(g modelGiven) bool { return g.limit == "hold" && g.hold == h.key })
	}
	r.unpause(h.pause, ended)
	r.settle()
	h.outer.release()
	return true
}

// restoreHolds takes up what is open in the store. Those of layers stop the wall clock and hold nothing.
func (r *modelRun) restoreHolds() {
	news := r.read()
	order := make([]int, len(news.of))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(news.pauses[a].opened, news.pauses[b].opened) })
	r.learnPauses(news)
	for _, i := range order {
		switch p := news.of[i]; {
		case p.closed:
		case p.layer:
			r.leftOpen = append(r.leftOpen, p)
		case r.held(p.key) == nil:
			stands := r.rungOf("hold", p.key)
			ladder := r.budget.Ladders.Hold
			waited := len(ladder) > 0 && stands >= len(ladder) && ladder[len(ladder)-1] == watchdog.DirectiveWait
			r.holds = append(r.holds, &modelHold{
				run: r, key: p.key, opened: p.opened, limit: p.limit, pause: p, restored: true,
				rung: modelRung{rung: stands, at: p.opened, last: waited},
			})
		}
	}
}

// A modelBusy is the host's Busy of one process, for the library and for the model. Both ask it the same number of
// times.
type modelBusy struct {
	busy  atomic.Bool
	asked atomic.Int64 // by the library
	asks  int64        // of the model
}

func (b *modelBusy) answer() bool {
	b.asked.Add(1)
	return b.busy.Load()
}

// isBusy is what the model is told when it asks before a trip of idle.
func (p *process) isBusy() bool {
	if p.busy == nil {
		return false
	}
	p.busy.asks++
	return p.busy.busy.Load()
}

func (h *pastimes) busyOrNot(p *process) {
	if p.busy == nil {
		return
	}
	p.busy.busy.Store(h.chance(2))
	h.say("%s: busy %v", p.name, p.busy.busy.Load())
}

func (h *pastimes) compareBusy(p *process) {
	if p.busy == nil {
		return
	}
	if got, want := p.busy.asked.Load(), p.busy.asks; got != want {
		h.fail("%s: asked %d times whether it is busy, want %d", p.name, got, want)
	}
}
