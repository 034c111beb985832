package drive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/oracle/history"
)

func (w *world) actOnHold(op history.Op, p *process, rng *rand.Rand) {
	g := guardOf(p, rng)
	switch op {
	case history.HoldOpen:
		if chance(rng, 120) {
			w.holdMany(g, rng)
		}
		w.open(g, rng)
	case history.HoldClose:
		w.closeHold(g, rng)
	case history.HoldEnd:
		w.endHold(g, rng)
	case history.HoldPass:
		w.passHold(p, rng)
	case history.HoldSign:
		if len(g.holds) == 0 {
			w.open(g, rng)
		}
		w.sign(g, rng)
	case history.During:
		w.during(g, rng)
	}
}

// drawHold draws a key and a limit.
func drawHold(rng *rand.Rand) (key string, limit watchdog.HoldLimit) {
	key = pick(rng, "tool", "tool", "approval", "approval", "build", "")
	if key == "" && !chance(rng, 10) {
		key = "other"
	}
	limit.Cap = pick(rng, 0, watchdog.NoLimit, length(rng, time.Minute), length(rng, 20*time.Minute))
	limit.PausesWallClock = chance(rng, 2)
	if limit.PausesWallClock && limit.Cap <= 0 && !chance(rng, 20) {
		limit.Cap = length(rng, 10*time.Minute)
	}
	if chance(rng, 3) {
		limit.Idle = length(rng, pick(rng, time.Minute, 5*time.Minute))
	}
	return key, limit
}

// open opens a hold, often with a context of its own.
func (w *world) open(g *guard, rng *rand.Rand) {
	key, limit := drawHold(rng)
	h := &held{key: key, limit: limit, opened: w.sinceBegin()}
	ctx := context.Background()
	if chance(rng, 3) {
		ctx, h.cancel = context.WithCancel(ctx)
	}
	wd := g.wd
	w.callThen(fmt.Sprintf("Hold %s %q %+v", g.name, key, limit), func() (text string) {
		var err error
		h.hold, err = wd.Hold(ctx, key, limit)
		return errText(err)
	}, func() {
		if h.hold != nil {
			g.holds = append(g.holds, h)
		} else if h.cancel != nil {
			h.cancel()
		}
	})
}

func (w *world) closeHold(g *guard, rng *rand.Rand) {
	if len(g.holds) == 0 {
		w.open(g, rng)
		return
	}
	h := g.holds[rng.IntN(len(g.holds))]
	if h.hold == nil {
		w.freeWork(h)
		return
	}
	w.call(fmt.Sprintf("Hold.Close %s %q", g.name, h.key), func() string { return fmt.Sprint(h.hold.Close()) })
}

// endHold ends the context that a hold was opened with.
func (w *world) endHold(g *guard, rng *rand.Rand) {
	for _, h := range g.holds {
		if h.cancel != nil {
			w.say(history.Did, "the context of %q of %s ends", h.key, g.name)
			h.cancel()
			h.cancel = nil
			return
		}
	}
	w.open(g, rng)
}

// passHold lets time pass to the cap or the idle of a hold.
func (w *world) passHold(p *process, rng *rand.Rand) {
	var edges []time.Duration
	for _, g := range p.runs {
		for _, h := range g.holds {
			limit := h.limit.Cap
			if limit == 0 {
				limit = g.budget.Hold
			}
			if limit > 0 && limit < 24*time.Hour {
				edges = append(edges, h.opened+limit-w.sinceBegin())
			}
			if h.limit.Idle > 0 {
				edges = append(edges, h.limit.Idle, h.opened+h.limit.Idle-w.sinceBegin())
			}
		}
	}
	if len(edges) == 0 {
		w.open(guardOf(p, rng), rng)
		edges = append(edges, time.Duration(rng.Int64N(int64(5*time.Minute))))
	}
	d := edges[rng.IntN(len(edges))] + pick(rng, 0, 1, 1, -1, time.Microsecond, 3*time.Second)
	w.say(history.Did, "pass %v with holds", d)
	if d > 0 {
		w.pass(d)
	}
}

// during does work under a hold, which another step ends.
func (w *world) during(g *guard, rng *rand.Rand) {
	key, limit := drawHold(rng)
	h := &held{key: key, limit: limit, opened: w.sinceBegin(), free: make(chan struct{})}
	free, wd := h.free, g.wd
	g.holds = append(g.holds, h)
	w.call(fmt.Sprintf("During %s %q %+v", g.name, key, limit), func() string {
		return errText(wd.During(wd.Context(), key, limit, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-free:
				return errWork
			}
		}))
	})
}

// freeWork ends the work under a hold.
func (w *world) freeWork(h *held) {
	if h.free != nil {
		w.say(history.Did, "the work under %q ends", h.key)
		close(h.free)
		h.free = nil
	}
}

// holdMany opens more holds than events may wait for a store, and closes most of them.
func (w *world) holdMany(g *guard, rng *rand.Rand) {
	f := pick(rng, fails, noWrites, loses, well)
	w.say(history.Did, "many holds of %s, with fault %d", g.name, f)
	g.proc.conn.break_(f, 0, time.Time{})
	wd := g.wd
	for i := range 25 + rng.IntN(25) {
		w.pass(time.Duration(1+rng.IntN(1000)) * time.Microsecond)
		h := &held{key: fmt.Sprint("many ", i), limit: watchdog.HoldLimit{Cap: time.Hour, PausesWallClock: true}}
		h.opened = w.sinceBegin()
		if !w.call("Hold "+g.name+" "+h.key, func() (text string) {
			var err error
			h.hold, err = wd.Hold(context.Background(), h.key, h.limit)
			return errText(err)
		}) || h.hold == nil {
			return
		}
		w.pass(time.Duration(1+rng.IntN(1000)) * time.Microsecond)
		if chance(rng, 9) {
			g.holds = append(g.holds, h)
		} else if !w.call("Hold.Close "+h.key, func() string { return fmt.Sprint(h.hold.Close()) }) {
			return
		}
	}
}
