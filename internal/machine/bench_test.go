package machine_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A mill is a session that lives on, with eight layers at a time, up to four deep.
type mill struct {
	*world
	limit  verdict.Limits
	layers [8]*run
}

func newMill(b *testing.B) *mill {
	b.Helper()
	m := &mill{world: newWorld(b, 1, false)}
	m.world.tree, m.world.runs, m.world.books = machine.Tree{}, nil, ledger.Ledger{}
	m.rules = machine.Rules{AsksBusy: true}
	m.limit = verdict.Limits{
		WallClock: 1e6 * time.Hour, WarnAt: []float64{0.5, 0.8}, Reserve: time.Minute, Safety: verdict.Never,
		Idle: time.Minute, NoProgress: time.Hour,
		Ladders: verdict.Ladders{
			verdict.Idle: []verdict.Directive{verdict.DirectWait}, verdict.NoProgress: []verdict.Directive{verdict.DirectWait},
		},
	}
	for _, kind := range [...]verdict.Kind{verdict.KindRequests, verdict.KindTokens, verdict.KindErrors} {
		m.limit.Counts = append(m.limit.Counts, verdict.CountLimit{
			CountID: verdict.CountID{Kind: kind}, Max: verdict.Endless - 1, WarnAt: m.limit.WarnAt,
		})
	}
	m.start(nil)
	for i := range m.layers {
		m.layers[i] = m.start(m.around(i))
	}
	return m
}

// around is the run around the layer in a place: half of them are chains, half are beside each other.
func (m *mill) around(i int) *run {
	if i == 0 || i >= maxDepth || m.layers[i-1].node.Phase() == machine.Over {
		return m.session()
	}
	return m.layers[i-1]
}

// start begins a run.
func (m *mill) start(outer *run) *run {
	r := &run{outer: outer, limits: m.limit}
	in := machine.Input{Kind: machine.Begin, Window: &fold.Window{StartedAt: m.now.Wall}}
	r.node.Name = machine.Name{Run: "s", StartedAt: m.now.Wall, Begins: outer != nil}
	if outer == nil {
		m.runs = append(m.runs, r)
	} else {
		in.Around = &outer.node
		r.limits.WallClock = outer.node.Remaining(outer.node.At(m.now.At))
	}
	r.node.Rules, r.node.Limits = m.rules, &r.limits
	r.node.Heed()
	m.open(r)
	m.feed(r, &in)
	return r
}

// feed feeds an input, and does what has to be done at once.
func (m *mill) feed(r *run, in *machine.Input) {
	in.Node = &r.node
	m.steps++
	for _, e := range m.tree.Step(m.now, in) {
		switch e.Kind {
		case machine.Record, machine.Leave:
			e.Node.Pending.Settle([]*machine.Entry{e.Entry})
		case machine.Exchange:
			r.trip = e.Trip
		}
	}
}

// round is a round of steps: two each of holds, charges, layers and answers of the store, and two others.
func (m *mill) round(i int) {
	place := i % len(m.layers)
	if m.layers[place].node.Phase() == machine.Over {
		m.layers[place] = m.start(m.around(place))
	}
	r := m.layers[place]
	open := machine.Input{
		Kind: machine.OpenHold, ID: verdict.HoldID{Key: "build"}, Pauses: i%4 == 0,
		Limits: verdict.HoldLimits{Cap: time.Hour},
	}
	m.feed(r, &open)
	m.pass(time.Millisecond)
	m.charge(r)
	m.pass(10 * time.Millisecond)
	if i%2 == 0 {
		m.feed(m.session(), &machine.Input{Kind: machine.Tick})
	} else {
		m.feed(r, &machine.Input{Kind: machine.Sign, Progress: i%3 == 0})
	}
	m.feed(r, &machine.Input{Kind: machine.CloseHold, Hold: open.Hold})
	m.trip(r, i)
	layer := m.start(r)
	m.feed(layer, &machine.Input{Kind: machine.End, Cause: errClosed})
}

// charge charges a call, and has it judged twice.
func (m *mill) charge(r *run) {
	var c ledger.Call
	c.Use.Counts[verdict.KindRequests], c.Use.Counts[verdict.KindInput] = 1, 10
	c.Use.Counts.SumTokens()
	var o ledger.Outcome
	r.account.Admit(&c, &o)
	m.feed(r, &machine.Input{Kind: machine.LookAround})
	used := c.Use
	used.Result = verdict.ResultOK
	m.books.Settle(o.ID, &used, "", &o)
	m.feed(r, &machine.Input{Kind: machine.LookAround})
}

// trip has the store take back the end of a run. Each sixteenth ends it.
func (m *mill) trip(r *run, i int) {
	in := machine.Input{
		Kind: machine.Cancel, Guard: &machine.Guard{Reason: "no_output", Verdict: verdict.Verdict{Action: verdict.Cancel}},
	}
	m.feed(r, &in)
	known := fold.Window{StartedAt: r.node.StartedAt, Extended: r.node.Seen().Extended + time.Second}
	if i%16 == 0 {
		known.CompletedAt = m.now.Wall
	}
	m.feed(r, &machine.Input{Kind: machine.Recorded, Window: &known})
	m.feed(m.session(), &machine.Input{Kind: machine.Adopt, Window: &fold.Window{StartedAt: m.session().node.StartedAt}})
}

// BenchmarkStep measures steps of all kinds on one core, with no checks.
func BenchmarkStep(b *testing.B) {
	m, steps := newMill(b), 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if m.round(i); i%1000 == 999 { // a window does not go on for ever
			steps += m.steps
			m = newMill(b)
		}
	}
	b.ReportMetric(float64(steps+m.steps)/b.Elapsed().Seconds(), "steps/s")
}

// BenchmarkHistories measures the inputs of [TestHistories], with all that it checks after each. The goal is 500,000 a
// second on one core, and of holds, charges, layers and answers of the store a fifth each.
func BenchmarkHistories(b *testing.B) {
	seed, steps := *firstSeed, 0
	var all mix
	for ; b.Loop(); seed++ {
		w := live(newWorld(b, seed, true), historyActs)
		steps += w.steps
		all.add(w.mix)
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
	for kind, share := range all.shares() {
		b.ReportMetric(float64(share), "%"+kind)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
