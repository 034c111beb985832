package machine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

var (
	histories = flag.Int("histories", racing.Rounds(3_000, 100_000), "how many histories of random sessions are tried")
	firstSeed = flag.Uint64("seed", 1, "that of the first history")
)

const historyActs = 250

// live lets a world live.
func live(w *world, acts int) *world {
	for range acts {
		if w.over() {
			break
		}
		w.act()
	}
	return w
}

// TestHistories checks what always holds of random sessions. See [world.checkStep] and [world.checkAct].
func TestHistories(t *testing.T) {
	steps, phases, depths, effects := 0, map[machine.Phase]int{}, map[int]int{}, map[machine.EffectKind]int{}
	var all mix
	for i := range *histories {
		w := live(newWorld(t, *firstSeed+uint64(i), true), historyActs) //nolint:gosec // not negative
		steps += w.steps
		all.add(w.mix)
		for _, r := range w.runs {
			phases[r.phase]++
			depths[r.depth]++
		}
		for _, h := range w.trail {
			effects[h.effect]++
		}
	}
	t.Logf("%d histories, %d steps, phases %v, depths %v, effects %v, %v %%",
		*histories, steps, phases, depths, effects, all.shares())
	for kind := range effectNames {
		if effects[machine.EffectKind(kind)] == 0 && *histories >= 1000 {
			t.Errorf("no history has the effect %q", effectNames[kind])
		}
	}
}

// TestSameHistory checks that the same inputs at the same instants have the same effects.
func TestSameHistory(t *testing.T) {
	for i := range *histories / 100 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			seed := *firstSeed + uint64(i) //nolint:gosec // not negative
			one, other := live(newWorld(t, seed, true), historyActs), live(newWorld(t, seed, true), historyActs)
			if !slices.Equal(one.trail, other.trail) {
				t.Errorf("seed %d has two histories:\n%v\n%v", seed, one.trail, other.trail)
			}
		})
	}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// A world is a random session with its layers, whose driver it is: it feeds inputs, does what the effects ask for, and
// checks after each step what always holds.
type world struct {
	tb      testing.TB
	rng     *rand.Rand
	seed    uint64
	scale   int64
	checked bool // else nothing is checked and nothing kept, for benchmarks

	tree      machine.Tree
	now       machine.Now
	books     ledger.Ledger
	rules     machine.Rules // all but the limits
	runs      []*run        // by the numbers of their nodes
	foreign   []event.Event // pauses of another process
	left      bool          // by a process that is gone, with a hold open
	elsewhere bool          // the last of foreign opens a pause
	extended  bool          // a layer was given more time than its run
	slept     time.Duration // when the machine last did, on the clock that stands still meanwhile
	theirs    fold.Window   // what foreign comes to
	folded    int           // how many of foreign that counts
	learned   int           // how many of them the session knows
	steps     int
	mix       mix
	trail     []happening
}

// A mix is how many inputs were of a kind. Those of charges are admissions and settlements, not the looks after them.
type mix struct{ holds, charges, layers, answers, others int }

func (m *mix) add(o mix) {
	m.holds, m.charges, m.layers = m.holds+o.holds, m.charges+o.charges, m.layers+o.layers
	m.answers, m.others = m.answers+o.answers, m.others+o.others
}

// count counts an input.
func (m *mix) count(kind machine.InputKind, layer bool) {
	switch {
	case kind == machine.OpenHold, kind == machine.CloseHold:
		m.holds++
	case layer && (kind == machine.Begin || kind == machine.End):
		m.layers++
	case kind == machine.Recorded, kind == machine.Adopt:
		m.answers++
	default:
		m.others++
	}
}

// shares are the parts of all inputs, in hundredths.
func (m *mix) shares() map[string]int {
	all := m.holds + m.charges + m.layers + m.answers + m.others
	return map[string]int{
		"holds": 100 * m.holds / all, "charges": 100 * m.charges / all, "layers": 100 * m.layers / all,
		"answers": 100 * m.answers / all, "others": 100 * m.others / all,
	}
}

// A run is one of a world, as its driver has it.
type run struct {
	node    machine.Node
	limits  verdict.Limits
	account ledger.Account
	outer   *run
	depth   int

	phase   machine.Phase // after the last step
	ended   bool          // it was told to
	trip    *machine.Trip // that waits for the store's answer
	holds   []*machine.Hold
	opened  int
	charges []charge
	given   time.Duration // of the wall clock, in the store
	more    map[fold.Key]int64

	outerWorked, worked time.Duration // when it began
	unaware             bool          // it began before its session knew of all pauses of others
}

type charge struct {
	id   ledger.ID
	most verdict.Use
}

// A happening is an input, or an effect of the one before.
type happening struct {
	input  machine.InputKind
	effect machine.EffectKind
	node   int
	at     time.Duration
	due    time.Duration // after an input
}

var inputNames = [...]string{
	"", "begin", "parent", "attached", "tick", "look", "look around", "sign", "awaited", "open hold", "close hold", "cancel",
	"complete", "recorded", "adopt", "end",
}

var effectNames = [...]string{
	"", "ended", "exchange", "record", "leave", "retry", "again", "unpaused",
}

func (h happening) String() string {
	if h.effect != 0 {
		return fmt.Sprintf("    %s of %d", effectNames[h.effect], h.node)
	}
	return fmt.Sprintf("%v %s of %d, due %v", h.at, inputNames[h.input], h.node, h.due)
}

// fail fails the test with what happened last.
func (w *world) fail(format string, args ...any) {
	w.tb.Helper()
	var last strings.Builder
	for _, h := range w.trail[max(len(w.trail)-60, 0):] {
		fmt.Fprintln(&last, h)
	}
	w.tb.Fatalf("seed %d, step %d: %s\n%s", w.seed, w.steps, fmt.Sprintf(format, args...), &last)
}

func (w *world) session() *run { return w.runs[0] }

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.now.At += d
	w.now.Wall = noon.Add(w.now.At)
}

// step feeds an input.
func (w *world) step(r *run, in *machine.Input) {
	in.Node = &r.node
	w.steps++
	w.mix.count(in.Kind, r.outer != nil)
	at := len(w.trail)
	if w.checked {
		w.trail = append(w.trail, happening{input: in.Kind, node: r.node.Number, at: w.now.At})
	}
	effects := w.tree.Step(w.now, in)
	for i := range effects {
		w.apply(in, &effects[i])
	}
	if w.checked {
		w.trail[at].due = w.tree.Due()
		w.checkStep(r, in)
	}
}

// apply does what an effect asks for.
func (w *world) apply(in *machine.Input, e *machine.Effect) {
	r := w.runs[e.Node.Number]
	if w.checked {
		w.trail = append(w.trail, happening{effect: e.Kind, node: e.Node.Number})
		w.checkEffect(r, in, e)
	}
	switch e.Kind {
	case machine.Ended:
		r.ended = true
	case machine.Exchange:
		r.trip = e.Trip
	}
}

// checkEffect checks that an effect may come.
func (w *world) checkEffect(r *run, in *machine.Input, e *machine.Effect) { //nolint:cyclop // a list
	switch {
	case e.Node != &r.node:
		w.fail("an effect of a run that is not there")
	case !r.ended, e.Kind == machine.Leave, e.Kind == machine.Retry:
	case e.Kind == machine.Record && r.outer == nil && w.now.Parent != nil: // how the parent ended
	default:
		w.fail("%s of %d, which has ended", effectNames[e.Kind], r.node.Number)
	}
	if (e.Kind == machine.Exchange) != (e.Trip != nil) || e.Kind == machine.Exchange && e.Trip != r.node.Trip() {
		w.fail("the trip of %d is not that of its effect", r.node.Number)
	}
	if (e.Kind == machine.Record || e.Kind == machine.Leave) && e.Entry == nil {
		w.fail("nothing to record of %d", r.node.Number)
	}
}

// checkStep checks what holds after each step.
func (w *world) checkStep(of *run, in *machine.Input) {
	for _, r := range w.runs {
		w.checkPhase(r, r == of, in)
		r.phase = r.node.Phase()
	}
	for _, r := range w.runs {
		w.checkRun(r)
	}
	if in.Wait && (in.Done || in.Hold != nil || in.Trip != nil && in.Kind != machine.Recorded) {
		w.fail("an input that has to wait did something")
	}
	switch in.Kind {
	case machine.Tick:
		if w.tree.Due() <= w.now.At {
			w.fail("after a tick a run is still due at %v", w.tree.Due())
		}
	case machine.Look, machine.LookAround:
		w.checkBudget(of)
	}
}

// checkPhase checks that a run has taken an arrow of the diagram, or none.
func (w *world) checkPhase(r *run, of bool, in *machine.Input) {
	before, after := r.phase, r.node.Phase()
	switch {
	case before == after:
	case before == machine.Running:
	case before == machine.Recording && of && in.Kind == machine.Recorded:
	default:
		w.fail("%d went from phase %d to %d", r.node.Number, before, after)
	}
	switch {
	case (after == machine.Over) != r.ended:
		w.fail("%d is in phase %d, and it is %v that it was told to end", r.node.Number, after, r.ended)
	case (after == machine.Recording) != (r.node.Trip() != nil):
		w.fail("%d is in phase %d with the trip %v", r.node.Number, after, r.node.Trip())
	case after == machine.Running && r.outer != nil && r.outer.node.Phase() == machine.Over:
		w.fail("%d runs in %d, which is over", r.node.Number, r.outer.node.Number)
	}
}

// checkRun checks the holds of a run, its clock beside that of the session, and what polls pass over.
func (w *world) checkRun(r *run) {
	n := &r.node
	if n.Phase() == machine.Over {
		for _, h := range r.holds {
			if !h.Closed() {
				w.fail("%d is over and has a hold open", n.Number)
			}
		}
		if signs := n.Seen().Signs; signs != nil && signs.Holds.Len() > 0 {
			w.fail("%d is over and is held", n.Number)
		}
		if n.Quiet(0) {
			w.fail("polls pass over that %d is over", n.Number)
		}
		return
	}
	if !r.cutOff() {
		w.checkWorked(r)
	}
	if n.Phase() == machine.Recording && n.Quiet(0) {
		w.fail("polls pass over that %d has a trip", n.Number)
	}
}

// cutOff reports whether a run around has ended, while the end of a layer between is being recorded.
func (r *run) cutOff() bool {
	for around := r.outer; around != nil; around = around.outer {
		if around.node.Phase() == machine.Over {
			return true
		}
	}
	return false
}

// checkWorked checks that the clocks of a layer and its run stand still together.
func (w *world) checkWorked(r *run) {
	if r.outer == nil || len(w.foreign) > 0 {
		return
	}
	n, around := &r.node, &r.outer.node
	own := n.Worked(n.At(w.now.At)) - r.worked
	outer := around.Worked(around.At(w.now.At)) - r.outerWorked
	if off := (own - outer).Abs(); off > w.slack() {
		w.fail("%d worked for %v since its begin, and the run around it for %v", n.Number, own, outer)
	}
}

// slack is how much clocks may differ, because pauses begin and end in whole microseconds.
func (w *world) slack() time.Duration {
	n := 2
	for _, r := range w.runs {
		n += 2 * r.opened
	}
	return time.Duration(n) * time.Microsecond
}

// checkBudget checks that a run which was looked at, and goes on, has something left.
func (w *world) checkBudget(r *run) {
	n := &r.node
	if n.Phase() != machine.Running || w.rules.ObserveOnly || w.rules.Disabled {
		return
	}
	if worked := n.Worked(n.At(w.now.At)); worked > n.Budget() {
		w.fail("%d runs on after %v of %v", n.Number, worked, n.Budget())
	}
}

// checkAct checks what holds once the driver has done what it does by itself: that nothing comes due before the tree
// does, and that the holds of layers are open around them.
func (w *world) checkAct() {
	due := w.tree.Due()
	for _, r := range w.runs {
		n := &r.node
		if n.Phase() == machine.Over {
			continue
		}
		w.checkHolds(r)
		if n.Phase() != machine.Running || w.rules.Disabled {
			continue
		}
		w.checkLeft(r)
		if before := min(due-1, w.now.At+1e6*time.Hour); before >= w.now.At {
			w.checkNothing(r, before, "the tree is due")
		}
		if quiet := w.now.At - w.now.Offset; n.Quiet(quiet) && (w.now.Offset == 0 || quiet > w.slept+time.Second) {
			w.checkNothing(r, w.now.At, "polls look")
		}
	}
}

// checkNothing checks that nothing is due of a run at an instant.
func (w *world) checkNothing(r *run, at time.Duration, before string) {
	v := verdict.Judge(*r.node.Limits, *r.node.Seen(), r.node.At(at))
	if v.Action != verdict.Continue {
		w.fail("%s of %d is due at %v, before %s", v.Limit, r.node.Number, at, before)
	}
}

// checkHolds checks that a run has as many holds as it and its layers have opened.
func (w *world) checkHolds(r *run) { //nolint:cyclop // a list
	open := 0
	for _, one := range w.runs {
		inside := one
		for inside != nil && inside != r {
			if inside.node.Phase() == machine.Over && one.node.Phase() != machine.Over {
				return
			}
			inside = inside.outer
		}
		if inside == nil {
			continue
		}
		for _, h := range one.holds {
			if !h.Closed() {
				open++
			}
		}
	}
	held := 0
	if signs := r.node.Seen().Signs; signs != nil {
		held = signs.Holds.Len()
	}
	if held != open && !(w.left && held > open) { // those that were left are beside them
		w.fail("%d is held by %d, and %d are open", r.node.Number, held, open)
	}
}

// checkLeft checks that a layer has no more left than its run.
func (w *world) checkLeft(r *run) {
	if r.outer == nil || r.unaware || w.extended || w.rules.ObserveOnly || r.cutOff() || r.outer.node.Phase() != machine.Running {
		return
	}
	left := r.node.Left(r.node.At(w.now.At))
	around := r.outer.node.Left(r.outer.node.At(w.now.At))
	slack := w.slack()
	if left-slack > around {
		w.fail("%d has %v left of the %v of its run", r.node.Number, left, around)
	}
}

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
