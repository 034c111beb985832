package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A rig is a session that is driven by hand. The machine's clock is not used.
type rig struct {
	t    *testing.T
	tree machine.Tree
	now  machine.Now
	runs []*machine.Node
	held map[*machine.Hold]*machine.Node
	out  []machine.Effect // of the last input
}

func unlimited() verdict.Limits {
	return verdict.Limits{
		WallClock: verdict.Never, Safety: verdict.Never, Idle: verdict.Never, NoProgress: verdict.Never,
		FirstSign: verdict.Never,
	}
}

// hour is an hour of wall clock and nothing else.
func hour() verdict.Limits {
	l := unlimited()
	l.WallClock = time.Hour
	return l
}

func newRig(t *testing.T, rules machine.Rules, limits verdict.Limits) *rig {
	g := &rig{t: t, now: machine.Now{Wall: noon}, held: map[*machine.Hold]*machine.Node{}}
	rules.Limits = &limits
	g.begin(nil, rules)
	g.give(g.runs[0], machine.Look)
	return g
}

// begin begins the session, or a layer of a run.
func (g *rig) begin(around *machine.Node, rules machine.Rules) *machine.Node {
	n := &machine.Node{Rules: rules, Number: len(g.runs)}
	n.Name = machine.Name{Run: "s", StartedAt: record.Truncate(g.now.Wall), Begins: around != nil}
	if rules.Limits.Idle != verdict.Never || rules.Limits.NoProgress != verdict.Never || rules.Limits.Ladders != nil {
		n.Heed()
	}
	g.runs = append(g.runs, n)
	g.feed(n, &machine.Input{Kind: machine.Begin, Around: around, Window: &fold.Window{StartedAt: n.StartedAt}})
	return n
}

// layer begins a layer with the limits.
func (g *rig) layer(around *machine.Node, limits verdict.Limits) *machine.Node {
	rules := around.Rules
	rules.Limits = &limits
	return g.begin(around, rules)
}

func (g *rig) pass(d time.Duration) {
	g.now.At += d
	g.now.Wall = noon.Add(g.now.At)
}

// tickAt has the timer ring at an instant.
func (g *rig) tickAt(at time.Duration) []machine.EffectKind {
	g.pass(at - g.now.At)
	return g.give(g.runs[0], machine.Tick)
}

// feed feeds an input and returns the kinds of its effects.
func (g *rig) feed(n *machine.Node, in *machine.Input) (kinds []machine.EffectKind) {
	in.Node = n
	g.out = nil
	for _, e := range g.tree.Step(g.now, in) {
		g.out, kinds = append(g.out, e), append(kinds, e.Kind)
	}
	return kinds
}

func (g *rig) give(n *machine.Node, kind machine.InputKind) []machine.EffectKind {
	return g.feed(n, &machine.Input{Kind: kind})
}

// hold opens a hold.
func (g *rig) hold(n *machine.Node, key string, limits verdict.HoldLimits, pauses bool) *machine.Hold {
	in := machine.Input{
		Kind: machine.OpenHold, ID: verdict.HoldID{Key: key}, Limits: limits, Pauses: pauses,
	}
	g.feed(n, &in)
	require.NotNil(g.t, in.Hold)
	g.held[in.Hold] = n
	return in.Hold
}

// release closes a hold, and reports whether it was open.
func (g *rig) release(h *machine.Hold) bool {
	in := machine.Input{Kind: machine.CloseHold, Hold: h}
	g.feed(g.held[h], &in)
	return in.Done
}

// recorded feeds the store's answer to the run's end.
func (g *rig) recorded(n *machine.Node, known fold.Window) []machine.EffectKind {
	known.StartedAt = n.StartedAt
	return g.feed(n, &machine.Input{Kind: machine.Recorded, Window: &known})
}

// end ends a run for its host.
func (g *rig) end(n *machine.Node) (in machine.Input, kinds []machine.EffectKind) {
	in = machine.Input{Kind: machine.End, Cause: errClosed}
	kinds = g.feed(n, &in)
	return in, kinds
}

// worked is what the wall clock of a run shows.
func (g *rig) worked(n *machine.Node) time.Duration { return n.Worked(n.At(g.now.At)) }

// kinds are effects that are expected.
func kinds(all ...machine.EffectKind) []machine.EffectKind { return all }
