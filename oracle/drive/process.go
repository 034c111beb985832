package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/oracle/history"
)

// A process attaches to runs, and is closed, or killed, again and again.
type process struct {
	w             *world
	name          string
	conn          *conn
	transactional bool
	cfg           watchdog.Config
	busy          atomic.Int32
	life          *life
	runs          []*guard // sessions and layers, those of a session behind it
	inner         context.Context
	end           context.CancelCauseFunc // of the context around the runs
}

// A life is what callbacks of a process that was killed are told by: nobody hears them any more.
type life struct{ over atomic.Bool }

// A guard is a run, or a layer of one, with what the host has of it.
type guard struct {
	proc    *process
	name    string
	session string
	wd      *watchdog.Watchdog
	budget  watchdog.Budget
	outer   *guard
	began   time.Duration
	signed  time.Duration // the last progress
	holds   []*held
	charges []*charged
	tries   []*tried
	readers []func()
	blind   bool // a look has not returned
	last    string
	closed  bool
}

type held struct {
	key    string
	hold   *watchdog.Hold
	cancel context.CancelFunc
	free   chan struct{} // of During
	limit  watchdog.HoldLimit
	opened time.Duration
}

type charged struct {
	name string
	c    watchdog.Charge
	most watchdog.Amount
}

type tried struct {
	free   chan error
	closed bool
}

// newProcess is one that has what the config says, and callbacks of its own.
func (w *world) newProcess(name string, cfg watchdog.Config, transactional bool) *process {
	p := &process{w: w, name: name, cfg: cfg, transactional: transactional, conn: newConn(w.db, name)}
	p.renew()
	rng := rand.New(rand.NewPCG(w.h.Seed, uint64(name[0])))
	p.cfg.Store, p.cfg.SpendStore = p.store(), p.conn.spend
	if w.setup.forgets {
		p.cfg.Store, p.cfg.SpendStore = nil, nil
	}
	if chance(rng, 4) {
		p.cfg.Busy = func() bool { return p.answerBusy() }
		p.setBusy(busyKind(rng.IntN(2)))
	}
	p.rebirth(chance(rng, 2), !chance(rng, 3), rng.IntN(12))
	if chance(rng, 12) && !w.setup.forgets {
		p.cfg.Keeper = &keeper{p: p, odd: rng.IntN(6)}
	}
	return p
}

// renew has the process have a context around its runs that has not ended.
func (p *process) renew() {
	p.inner, p.end = context.WithCancelCause(context.Background())
	end := p.end
	p.w.ends = append(p.w.ends, func() { end(context.Canceled) })
}

func (p *process) store() watchdog.EventStore {
	switch {
	case p.w.setup.instant:
		return p.w.db.memory
	case p.transactional:
		return transactional{p.conn}
	}
	return p.conn
}

// rebirth has the callbacks be those of a new life.
func (p *process) rebirth(traces, warns bool, odd int) {
	if p.life != nil {
		p.life.over.Store(true)
	}
	l := &life{}
	p.life = l
	if traces {
		p.cfg.OnSignal = func(s watchdog.Signal) {
			signal, _ := json.Marshal(s)
			text, both := history.TracedByBoth(signal)
			if !both {
				return
			}
			p.hear(l, history.Traced, s.Run, text)
			if odd == 1 {
				panic("a trace that panics")
			}
		}
	}
	if warns {
		p.cfg.OnWarning = func(one watchdog.Warning) {
			p.hear(l, history.Warned, one.RunID, warningText(one))
			if odd == 2 {
				panic("a warning that panics")
			}
		}
	}
	p.cfg.Logger = slog.New(&logged{p: p, life: l})
}

// hear writes what a callback of the life was told of a run.
func (p *process) hear(l *life, topic history.Topic, run, text string) {
	if !l.over.Load() {
		p.w.hear(topic, p.name+" "+run, fmt.Sprintf("+%v %s", p.w.sinceBegin(), text))
	}
}

// A busyKind is what Busy says.
type busyKind int32

const (
	busyNo busyKind = iota
	busyYes
	busyHangs
	busyPanics
	busyKinds
)

func (p *process) setBusy(k busyKind) { p.busy.Store(int32(k)) }

func (p *process) answerBusy() bool {
	switch busyKind(p.busy.Load()) {
	case busyYes:
		return true
	case busyHangs:
		p.w.sleep(3 * time.Second)
	case busyPanics:
		panic("Busy panics")
	}
	return false
}

// A logged writes log records as a host reads them.
type logged struct {
	p     *process
	life  *life
	attrs []slog.Attr
}

// Enabled implements [slog.Handler].
func (h *logged) Enabled(context.Context, slog.Level) bool { return true }

// WithGroup implements [slog.Handler].
func (h *logged) WithGroup(name string) slog.Handler {
	return h.WithAttrs([]slog.Attr{slog.String("group", name)})
}

// WithAttrs implements [slog.Handler].
func (h *logged) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logged{h.p, h.life, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// Handle implements [slog.Handler].
func (h *logged) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %q", r.Level, r.Message)
	run := ""
	add := func(a slog.Attr) bool {
		if a.Key == "run" {
			run = a.Value.String()
		}
		if a.Key == "stack" { // it is that of this program
			a.Value = slog.StringValue("there")
		}
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if strings.Contains(r.Message, "panicked") || strings.Contains(r.Message, "could not record") {
		run += inTrouble
	}
	h.p.hear(h.life, history.Logged, run, b.String())
	return nil
}

// A keeper keeps nothing, and says what it was asked.
type keeper struct {
	p     *process
	odd   int
	tries int
}

var errKeeper = errors.New("the keeper keeps nothing")

// Keep implements watchdog.Keeper.
func (k *keeper) Keep(_ context.Context, run *watchdog.Watchdog) (watchdog.Attempt, error) {
	k.tries++
	k.p.hear(k.p.life, history.Kept, run.ID(), fmt.Sprintf("keep %v", run.StartedAt()))
	switch k.odd {
	case 1:
		return watchdog.Attempt{}, errKeeper
	case 2:
		return watchdog.Attempt{Number: k.tries, Lost: k.tries > 1}, nil
	case 3:
		return watchdog.Attempt{Number: k.tries, Stopped: true}, nil
	}
	return watchdog.Attempt{Number: k.tries}, nil
}

// Ended implements watchdog.Keeper.
func (k *keeper) Ended(_ context.Context, run *watchdog.Watchdog) {
	k.p.hear(k.p.life, history.Kept, run.ID(), "ended "+causeText(run.Context()))
}

// freeAll ends the host's work in the run.
func (g *guard) freeAll() {
	for _, h := range g.holds {
		if h.cancel != nil {
			h.cancel()
		}
		if h.free != nil {
			close(h.free)
			h.free = nil
		}
	}
	for _, t := range g.tries {
		if !t.closed {
			t.closed = true
			close(t.free)
		}
	}
}
