package adapter

import (
	"context"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/loop"
)

// turns are those of a run that are under way: its own, and one for each agent that works in it beside others.
type turns struct {
	own    turn
	agents map[string]*turn
	uses   uint64

	session string // of the person
	persons int    // how often one had spoken
}

// turnsOf returns those of a run, new ones if a person has spoken since. The caller holds mu.
func (g *Guard) turnsOf(wd *watchdog.Watchdog) *turns {
	all, persons := g.turns[wd], handle.Of(wd.Context()).Persons()
	if all == nil {
		all = &turns{own: turn{wd: wd, last: time.Now()}, persons: persons}
		g.turns[wd] = all
		context.AfterFunc(wd.Context(), func() { g.forget(wd) })
	}
	if all.persons != persons {
		all.own.take()
		all.closeAgents()
		all.persons = persons
	}
	return all
}

// closeAgents has the agents' layers closed, which may wait for a store.
func (a *turns) closeAgents() {
	agents := a.agents
	a.agents = nil
	if len(agents) > 0 {
		go func() {
			for _, t := range agents {
				t.close()
			}
		}()
	}
}

// toolKey is what the context of a tool's work has.
type toolKey struct{}

// agentIn returns the name of the agent that makes a call. One in a tool has a name, because its own layer can be asked
// to do something else, and that of the tool would end the tool then.
func agentIn(ctx context.Context, name string) string {
	if name == "" && ctx.Value(toolKey{}) != nil {
		return "agent"
	}
	return name
}

// turn returns the turn of an agent of a run, its own without a name, nil without a run.
func (g *Guard) turn(wd *watchdog.Watchdog, agent string) *turn {
	if wd == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.turnsOf(wd)
	if agent == "" {
		return &all.own
	}
	t := all.agents[agent]
	if t == nil {
		t = &turn{wd: wd, layer: g.name(agent), last: time.Now()}
		all.add(agent, t)
	}
	all.uses++
	t.used = all.uses
	return t
}

func (g *Guard) forget(wd *watchdog.Watchdog) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns[wd].closeAgents()
	delete(g.turns, wd)
}

// add adds the turn of an agent. An agent whose turn was used long ago, and whose name may not come again, loses it.
func (a *turns) add(agent string, t *turn) {
	const most = 64
	if a.agents == nil {
		a.agents = map[string]*turn{}
	}
	if len(a.agents) >= most {
		oldest := agent
		for name, t := range a.agents {
			if oldest == agent || t.used < a.agents[oldest].used {
				oldest = name
			}
		}
		go a.agents[oldest].close() // it may wait for a store
		delete(a.agents, oldest)
	}
	a.agents[agent] = t
}

// A turn collects the calls that a model asked for at once. A nil turn, which is one without a run, collects nothing.
type turn struct {
	wd    *watchdog.Watchdog
	layer string // the name of an agent's layer
	used  uint64 // counts up, for the guard

	mu     sync.Mutex
	apart  *watchdog.Watchdog // the agent's layer, nil before it is needed
	closed bool
	open   int // calls under way
	steps  []loop.Step
	last   time.Time // when the turn before it was told
}

// run returns whom the turn is told to: the run, or the layer of its agent. Where none can be opened, such as one whose
// run ID would be too long, that is the run.
func (t *turn) run() *watchdog.Watchdog {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.layer == "" || t.closed {
		return t.wd
	}
	if t.apart == nil {
		ctx, err := handle.Of(t.wd.Context()).Apart(t.layer)
		if err != nil {
			return t.wd
		}
		t.apart = watchdog.FromContext(ctx)
	}
	return t.apart
}

func (t *turn) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	_ = t.agent().Close() // what it did is over
}

func (t *turn) add(s loop.Step) {
	if t == nil {
		return
	}
	const most = 256 // where no call of a model takes them
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steps) < most {
		t.steps = append(t.steps, s)
	}
}

func (t *turn) count(calls int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open += calls
}

// over reports whether nobody is to be waited for. A run that never has no call under way has turns all the same.
func (t *turn) over() bool {
	const long = 32
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open == 0 || len(t.steps) >= long
}

// take returns the calls of the turn that has ended.
func (t *turn) take() []loop.Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steps) == 0 {
		return nil
	}
	steps, now := t.steps, time.Now()
	for i := range steps {
		steps[i].Gap = now.Sub(t.last)
	}
	t.steps, t.last = nil, now
	return steps
}

// reuse takes back the memory of steps that were told, unless there were many.
func (t *turn) reuse(steps []loop.Step) {
	const many = 32
	clear(steps)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.steps == nil && cap(steps) <= many {
		t.steps = steps[:0]
	}
}

// tell tells of the turn that has ended, and returns what the detector of loops says of it.
func (t *turn) tell() loop.Advice {
	steps := t.take()
	if len(steps) == 0 {
		return loop.Go
	}
	defer t.reuse(steps)
	return t.run().Step(steps...).Advice
}

// agent returns the agent's layer, nil if it has none or nothing was told to it yet.
func (t *turn) agent() *watchdog.Watchdog {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.apart
}
