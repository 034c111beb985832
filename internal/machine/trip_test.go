package machine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// held is the event of a hold of another process, or of a layer there, that stops the wall clock from an instant of the
// window on.
func held(id, key, layer string, at, limit time.Duration) event.Event {
	return heldBy(&record.Opener{Attach: id}, id, key, layer, at, limit)
}

// heldBy is held with its opener, nil for one of an older version.
func heldBy(by *record.Opener, id, key, layer string, at, limit time.Duration) event.Event {
	return event.Event{
		ID: id, AggregateID: "s", Type: event.Hold, Timestamp: noon.Add(at),
		Payload: record.JSON(record.Hold{
			Hold: key, SessionStartedAt: event.Stamp(noon), OpenedSeconds: record.ExactSeconds(at),
			CapSeconds: record.FloatSeconds(limit), Layer: layer, Opener: by,
		}),
	}
}

// lives is the host of openers that live.
const lives = "lives"

// released is the event of its release.
func released(opening string, at time.Duration) event.Event {
	return event.Event{
		ID: "r-" + opening, AggregateID: "s", Type: event.Release, Timestamp: noon.Add(at),
		Payload: record.JSON(record.Release{
			SessionStartedAt: event.Stamp(noon), ReleasedSeconds: record.ExactSeconds(at), Opening: opening,
		}),
	}
}

// windowOf is what the events say of the window that begins at noon.
func windowOf(events ...event.Event) fold.Window {
	h := fold.Of(fold.WindowID{}, events)
	return h.At(noon)
}

// attached is a session that is attached to a window, a while after that began.
func attached(t *testing.T, limits verdict.Limits, after time.Duration, found fold.Window) *rig {
	g := &rig{t: t, held: map[*machine.Hold]*machine.Node{}}
	g.pass(after)
	n := &machine.Node{Rules: machine.Rules{Limits: &limits}, Name: machine.Name{Run: "s", StartedAt: noon}}
	g.runs = []*machine.Node{n}
	if limits.Ladders != nil {
		n.Heed()
	}
	g.feed(n, &machine.Input{Kind: machine.Begin, Elapsed: after, Window: &found})
	g.give(n, machine.Look)
	return g
}

// TestTrip protects what a trip knows of its window, by which the store says whether more is known.
func TestTrip(t *testing.T) {
	inHour(t, "of the wall clock: the pauses", func(t *testing.T, g *rig) {
		h := g.hold(g.runs[0], "approval", verdict.HoldLimits{Cap: time.Hour}, true)
		g.pass(10 * time.Minute)
		require.True(t, g.release(h))
		require.Equal(t, kinds(machine.Exchange), g.tickAt(70*time.Minute+1))
		trip := g.out[0].Trip
		require.Equal(t, 10*time.Minute, trip.Paused)
		require.Equal(t, 10*time.Minute, trip.Pauses.Before(trip.Elapsed))
		known := windowOf(held("e", "elsewhere", "", time.Minute, time.Minute))
		require.False(t, known.TakesBack(&trip.Trip), "it lies in that of this process")
		known = windowOf(held("e", "elsewhere", "", 20*time.Minute, time.Minute))
		require.True(t, known.TakesBack(&trip.Trip))
	})
	t.Run("of a hold that a process left open: its pause", func(t *testing.T) {
		g := attached(t, hour(), 2*time.Minute, windowOf(held("e", "approval", "", time.Minute, 10*time.Minute)))
		require.Equal(t, kinds(machine.Exchange), g.tickAt(11*time.Minute+1))
		trip := g.out[0].Trip
		require.Equal(t, "e", trip.LeftOpen)
		known := windowOf(held("e", "approval", "", time.Minute, 10*time.Minute), released("e", 3*time.Minute))
		require.True(t, known.TakesBack(&trip.Trip))
		require.Empty(t, g.recorded(g.runs[0], known)[1:], "it ends the pause, and nothing else")
		require.Equal(t, machine.Running, g.runs[0].Phase())
		require.Zero(t, g.runs[0].Seen().Signs.Holds.Len())
	})
	t.Run("of a hold that was taken over: nothing", func(t *testing.T) {
		g := attached(t, hour(), 2*time.Minute, windowOf(held("e", "approval", "", time.Minute, 10*time.Minute)))
		g.hold(g.runs[0], "approval", verdict.HoldLimits{Cap: time.Hour}, true)
		require.Equal(t, kinds(machine.Exchange), g.tickAt(11*time.Minute+1))
		require.Empty(t, g.out[0].Trip.LeftOpen)
	})
	t.Run("of a counted limit: what that was given", func(t *testing.T) {
		l := verdict.Off()
		l.Counts = []verdict.CountLimit{{CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: 1}}
		g := newRig(t, machine.Rules{}, l)
		g.count(g.runs[0], &ledger.Ledger{}, l.Counts)
		given := map[fold.Key]int64{machine.KeyOfCount(&l.Counts[0]): 1}
		g.feed(g.runs[0], &machine.Input{Kind: machine.Adopt, Window: &fold.Window{Given: given}})
		for range 3 {
			c := ledger.Call{}
			c.Use.Counts[verdict.KindRequests] = 1
			g.runs[0].Account.Admit(&c, &ledger.Outcome{})
		}
		require.Equal(t, kinds(machine.Exchange), g.give(g.runs[0], machine.Look))
		trip := g.out[0].Trip
		require.EqualValues(t, 1, trip.Given)
		require.False(t, (&fold.Window{Given: given}).TakesBack(&trip.Trip))
	})
}

// TestAttached protects when an attach that took time was done.
func TestAttached(t *testing.T) {
	inHour(t, "silence counts from there", func(t *testing.T, g *rig) {
		g.give(g.runs[0], machine.Attached)
		require.Zero(t, g.runs[0].Seen().Begun)
		g.pass(time.Second)
		g.give(g.runs[0], machine.Attached)
		require.Equal(t, time.Second, g.runs[0].Seen().Begun)
	})
}

// TestForeignPause protects whose word counts for a pause.
func TestForeignPause(t *testing.T) {
	adopt := func(g *rig, events ...event.Event) {
		known := windowOf(events...)
		g.feed(g.runs[0], &machine.Input{Kind: machine.Adopt, Window: &known})
	}
	// own opens a pause and returns what the store has of it.
	own := func(g *rig) (*machine.Hold, event.Event) {
		h := g.hold(g.runs[0], "approval", verdict.HoldLimits{Cap: time.Hour}, true)
		for _, e := range g.out {
			if e.Kind == machine.Record {
				return h, e.Entry.Events()[0]
			}
		}
		return h, event.Event{}
	}
	inHour(t, "this process's for one that it has open", func(t *testing.T, g *rig) {
		_, opened := own(g)
		g.pass(10 * time.Minute)
		adopt(g, opened, released(opened.ID, time.Minute))
		require.Zero(t, g.worked(g.runs[0]))
	})
	inHour(t, "this process's for one that it closed", func(t *testing.T, g *rig) {
		h, opened := own(g)
		g.pass(2 * time.Minute)
		require.True(t, g.release(h))
		adopt(g, opened, released(opened.ID, time.Minute))
		require.Zero(t, g.worked(g.runs[0]))
	})
	t.Run("the other's for one that this one took over, and it stays open", func(t *testing.T) {
		opened := held("e", "approval", "", time.Minute, 10*time.Minute)
		g := attached(t, hour(), 2*time.Minute, windowOf(opened))
		h := g.hold(g.runs[0], "approval", verdict.HoldLimits{Cap: time.Hour}, true)
		adopt(g, opened, released("e", 90*time.Second))
		require.Equal(t, 90*time.Second, g.worked(g.runs[0]))
		require.False(t, h.Closed())
		require.Equal(t, 1, g.runs[0].Seen().Signs.Holds.Len())
	})
	t.Run("the other's for one of a layer that this one opened again", func(t *testing.T) {
		opened := held("e", "s/build", "s/l", time.Minute, 10*time.Minute)
		g := attached(t, hour(), 2*time.Minute, windowOf(opened))
		g.hold(g.layer(g.runs[0], hour()), "build", verdict.HoldLimits{Cap: time.Hour}, true)
		adopt(g, opened, released("e", 90*time.Second))
		require.Equal(t, 90*time.Second, g.worked(g.runs[0]))
	})
	t.Run("of two of a layer, its own for the one that it opened again", func(t *testing.T) {
		g := attached(t, hour(), 2*time.Minute, windowOf(
			held("a", "s/build", "s/l", time.Minute, time.Hour), held("b", "s/fetch", "s/l", time.Minute, time.Hour),
		))
		layer := g.layer(g.runs[0], hour())
		for key, opening := range map[string]string{"build": "a", "fetch": "b"} {
			g.hold(layer, key, verdict.HoldLimits{Cap: time.Hour}, true)
			pause, _ := g.runs[0].Seen().Signs.Pauses.Find(opening)
			require.True(t, pause.Closed, key)
		}
	})
	t.Run("this process's and that of one that it took over and that lives", func(t *testing.T) {
		opened := held("e", "approval", "", time.Minute, time.Hour)
		g := attached(t, hour(), 2*time.Minute, windowOf(opened))
		h := g.hold(g.runs[0], "approval", verdict.HoldLimits{Cap: time.Hour}, true)
		g.pass(time.Minute)
		require.True(t, g.release(h))
		g.pass(2 * time.Minute)
		require.Equal(t, 3*time.Minute, g.worked(g.runs[0]))
		adopt(g, opened, released("e", 4*time.Minute))
		require.Equal(t, 2*time.Minute, g.worked(g.runs[0]))
	})
	inHour(t, "nobody's in a layer that began when it was over", func(t *testing.T, g *rig) {
		g.pass(2 * time.Minute)
		a := g.layer(g.runs[0], hour())
		adopt(g, held("e", "approval", "", time.Minute, time.Minute))
		require.Nil(t, a.Seen().Signs)
	})
	t.Run("the other's for one that nobody took over", func(t *testing.T) {
		opened := held("e", "approval", "", time.Minute, 10*time.Minute)
		g := attached(t, hour(), 2*time.Minute, windowOf(opened))
		adopt(g, opened, released("e", 90*time.Second))
		require.Equal(t, 90*time.Second, g.worked(g.runs[0]))
		require.Zero(t, g.runs[0].Seen().Signs.Holds.Len())
	})
	inHour(t, "an opening and its release wait together", func(t *testing.T, g *rig) {
		h, _ := own(g)
		g.release(h)
		all := g.runs[0].Pending.Pauses()
		require.Len(t, all, 2)
		require.True(t, all[0].Opens)
		require.True(t, all[1].Closes)
		require.Same(t, &all[0].State, all[1].Opening)
	})
}

// A rig is a session that is driven by hand. The machine's clock is not used.
type rig struct {
	t    *testing.T
	tree machine.Tree
	now  machine.Now
	runs []*machine.Node
	held map[*machine.Hold]*machine.Node
	out  []machine.Effect // of the last input
}

// hour is an hour of wall clock and nothing else.
func hour() verdict.Limits {
	l := verdict.Off()
	l.WallClock = time.Hour
	return l
}

// inHour runs a case of a test with a session of an hour.
func inHour(t *testing.T, name string, test func(t *testing.T, g *rig)) {
	t.Run(name, func(t *testing.T) { test(t, newRig(t, machine.Rules{}, hour())) })
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
	n.Name = machine.Name{Run: "s", StartedAt: event.Truncate(g.now.Wall), Begins: around != nil}
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

// hold opens a hold. All openers that are known and do not live are known to be gone.
func (g *rig) hold(n *machine.Node, key string, limits verdict.HoldLimits, pauses bool) *machine.Hold {
	in := machine.Input{
		Kind: machine.OpenHold, ID: verdict.HoldID{Key: key}, Limits: limits, Pauses: pauses, Gone: map[string]bool{},
	}
	for opening, by := range n.Openers(key) {
		in.Gone[opening] = by.Host != lives
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

// count has the run be a session whose account has the limits.
func (g *rig) count(n *machine.Node, books *ledger.Ledger, limits []verdict.CountLimit) *verdict.Spend {
	account := &ledger.Account{}
	books.OpenSession(account, verdict.NewSpend(limits, false), "")
	n.Count(account)
	return account.Spend
}

// worked is what the wall clock of a run shows.
func (g *rig) worked(n *machine.Node) time.Duration { return n.Worked(n.At(g.now.At)) }

// kinds are effects that are expected.
func kinds(all ...machine.EffectKind) []machine.EffectKind { return all }

// onMachine is a session on the machine's clock, with a limit of silence of a minute that has a ladder.
func onMachine(t *testing.T, rules machine.Rules, ladder ...verdict.Directive) (*rig, *machine.Node) {
	l := verdict.Off()
	l.Idle, l.Ladders = time.Minute, verdict.Ladders{verdict.Idle: ladder}
	g := newRig(t, rules, l)
	g.now.Machine = true
	return g, g.runs[0]
}

// resets are what an entry's last event says that it puts back or takes the place of.
func resets(t *testing.T, e *machine.Entry) []string {
	var p struct {
		Resets []string `json:"resets"`
	}
	events := e.Events()
	require.NoError(t, json.Unmarshal(events[len(events)-1].Payload, &p))
	return p.Resets
}

// retried is the event of the first rung of a limit's ladder.
func retried(reason, hold string) event.Event {
	return event.Event{
		ID: "d", AggregateID: "s", Type: event.Prefix + "retry", Timestamp: noon,
		Payload: record.JSON(record.Trip{
			Reason: reason, SessionStartedAt: event.Stamp(noon), Directive: "retry", Rung: 1, Hold: hold,
		}),
	}
}

// TestLadder protects that directives stand until there is progress, and that it is recorded then, once.
func TestLadder(t *testing.T) {
	// given passes a minute of silence and returns the ID of the directive that this gives.
	given := func(t *testing.T, g *rig) string {
		g.pass(time.Minute + 1)
		require.Contains(t, g.give(g.runs[0], machine.Tick), machine.Record)
		events := g.out[0].Entry.Events()
		require.Len(t, events, 2)
		return events[1].ID
	}
	t.Run("progress puts one back at once", func(t *testing.T) {
		g, n := onMachine(t, machine.Rules{}, verdict.DirectRetry, verdict.DirectWait)
		id := given(t, g)
		require.Equal(t, machine.Again, g.out[1].Kind)
		require.False(t, n.Pulse.Load().At(false, false, g.now.At), "a sign of life does not")
		require.True(t, n.Pulse.Load().At(true, false, g.now.At))
		require.Equal(t, kinds(machine.Record), g.give(n, machine.Look))
		require.Equal(t, event.Progress, g.out[0].Entry.Events()[0].Type)
		require.Equal(t, []string{id}, resets(t, g.out[0].Entry))
		g.pass(time.Second)
		require.False(t, n.Pulse.Load().At(true, false, g.now.At), "nothing stands any more")
		require.Empty(t, g.give(n, machine.Look))
	})
	t.Run("progress that is told late leaves those that came after it", func(t *testing.T) {
		g, n := onMachine(t, machine.Rules{}, verdict.DirectRetry, verdict.DirectWait)
		given(t, g)
		require.True(t, n.Pulse.Load().At(true, false, g.now.At-1))
		require.Empty(t, g.give(n, machine.Look))
		g.pass(time.Second)
		require.True(t, n.Pulse.Load().At(true, false, g.now.At), "the next is awaited again")
	})
	t.Run("the last progress of a run that ends is recorded", func(t *testing.T) {
		g, n := onMachine(t, machine.Rules{}, verdict.DirectRetry, verdict.DirectWait)
		id := given(t, g)
		n.Pulse.Load().At(true, false, g.now.At)
		_, out := g.end(n)
		require.Equal(t, kinds(machine.Leave, machine.Ended, machine.Retry), out)
		require.Equal(t, []string{id}, resets(t, g.out[0].Entry))
	})
	t.Run("a wait that comes again takes the place of the one before", func(t *testing.T) {
		g, n := onMachine(t, machine.Rules{}, verdict.DirectWait)
		first := given(t, g)
		require.True(t, n.Pulse.Load().At(false, false, g.now.At), "it ends the stretch")
		g.give(n, machine.Awaited)
		g.give(n, machine.Tick)
		second := given(t, g)
		require.NotEqual(t, first, second)
		require.Equal(t, []string{first}, resets(t, g.out[0].Entry))
	})
	t.Run("and not that of a lower rung", func(t *testing.T) {
		g, n := onMachine(t, machine.Rules{}, verdict.DirectRetry, verdict.DirectWait)
		first := given(t, g)
		second := given(t, g)
		require.Empty(t, resets(t, g.out[0].Entry))
		n.Pulse.Load().At(false, false, g.now.At)
		g.give(n, machine.Look)
		third := given(t, g)
		require.Equal(t, []string{second}, resets(t, g.out[0].Entry))
		n.Pulse.Load().At(true, false, g.now.At)
		g.give(n, machine.Look)
		require.Equal(t, []string{first, third}, resets(t, g.out[0].Entry))
	})
	t.Run("one of a counted limit stands while that allows the same", func(t *testing.T) {
		l := verdict.Off()
		l.Counts = []verdict.CountLimit{{CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: 1}}
		l.Ladders = verdict.Ladders{"requests": []verdict.Directive{verdict.DirectWait}}
		for given, attempts := range []int{1, 0} {
			found := windowOf(event.Event{
				ID: "d", AggregateID: "s", Type: event.Prefix + "wait", Timestamp: noon,
				Payload: record.JSON(record.Trip{
					Reason: "requests_exceeded", SessionStartedAt: event.Stamp(noon), Directive: "wait", Rung: 1,
					Spend: &record.Spend{Limit: "requests", Allowed: 1},
				}),
			})
			found.Given = map[fold.Key]int64{machine.KeyOfCount(&l.Counts[0]): int64(given)}
			g := &rig{}
			n := &machine.Node{Rules: machine.Rules{Limits: &l}}
			spend := g.count(n, &ledger.Ledger{}, l.Counts)
			g.feed(n, &machine.Input{Kind: machine.Begin, Window: &found})
			require.Equal(t, attempts, spend.Counts[0].Rung.Attempts)
			require.EqualValues(t, given, spend.Counts[0].Extended)
		}
	})
	t.Run("one that stands at the attach is put back, too", func(t *testing.T) {
		l := verdict.Off()
		l.Idle, l.Ladders = time.Minute, verdict.Ladders{verdict.Idle: []verdict.Directive{verdict.DirectRetry, verdict.DirectWait}}
		g := attached(t, l, time.Second, windowOf(retried("idle_exceeded", "")))
		g.now.Machine = true
		require.True(t, g.runs[0].Pulse.Load().At(true, false, g.now.At))
		require.Equal(t, kinds(machine.Record), g.give(g.runs[0], machine.Look))
		require.Equal(t, []string{"d"}, resets(t, g.out[0].Entry))
	})
	t.Run("one that stands is awaited by who heeds signals later", func(t *testing.T) {
		l := verdict.Off()
		for standing, found := range map[bool]fold.Window{
			true:  windowOf(retried("idle_exceeded", "")),
			false: windowOf(held("e", "s/build", "s/l", 0, time.Hour)), // nothing else is known either
		} {
			g := attached(t, l, time.Second, found)
			require.Nil(t, g.runs[0].Pulse.Load())
			g.hold(g.runs[0], "build", verdict.HoldLimits{Cap: time.Hour, Idle: time.Minute}, false)
			require.Equal(t, standing, g.runs[0].Pulse.Load().At(true, false, g.now.At))
		}
	})
	t.Run("one that stands has its limit go on from its rung", func(t *testing.T) {
		l := verdict.Off()
		l.Idle, l.Ladders = time.Minute, verdict.Ladders{}
		for _, limit := range []verdict.Limit{verdict.Idle, verdict.Hold} {
			l.Ladders[limit] = []verdict.Directive{verdict.DirectRetry, verdict.DirectWait}
		}
		for reason, hold := range map[string]string{"idle_exceeded": "", "hold_exceeded": "build"} {
			g := attached(t, l, time.Second, windowOf(retried(reason, hold)))
			if hold != "" {
				g.hold(g.runs[0], hold, verdict.HoldLimits{Cap: time.Minute}, false)
			}
			require.Equal(t, kinds(machine.Record), g.tickAt(2*time.Minute))
			require.Equal(t, 2, g.out[0].Entry.Notice.Verdict.Rung, reason)
			require.Zero(t, g.runs[0].Seen().Signs.OnNoProgress)
		}
	})
	t.Run("work is not begun again in a run that is only observed", func(t *testing.T) {
		g, n := onMachine(t, machine.Rules{ObserveOnly: true}, verdict.DirectRetry)
		g.pass(time.Minute + 1)
		require.Equal(t, kinds(machine.Record), g.give(n, machine.Tick))
	})
	t.Run("a sign of life in the pulse puts the limit off", func(t *testing.T) {
		g, n := onMachine(t, machine.Rules{}, verdict.DirectRetry)
		require.False(t, n.Pulse.Load().At(false, false, 30*time.Second))
		require.Empty(t, g.tickAt(time.Minute+1))
		require.Equal(t, 90*time.Second+1, g.tree.Due())
	})
	t.Run("with no progress, only progress ends the stretch after a last wait", func(t *testing.T) {
		l := verdict.Off()
		l.NoProgress = time.Minute
		for _, ladder := range [][]verdict.Directive{{verdict.DirectWait}, nil} { // nor after a cancel that is observed
			l.Ladders = verdict.Ladders{verdict.NoProgress: ladder}
			g := newRig(t, machine.Rules{ObserveOnly: true}, l)
			g.now.Machine = true
			n := g.runs[0]
			require.Equal(t, kinds(machine.Record), g.tickAt(time.Minute+1))
			require.False(t, n.Pulse.Load().At(false, false, g.now.At))
			require.True(t, n.Pulse.Load().At(true, false, g.now.At))
			g.give(n, machine.Awaited)
			g.give(n, machine.Tick)
			require.Equal(t, 2*time.Minute+2, g.tree.Due())
		}
	})
}

// TestRestore protects which counted limits are put where the events of a window have them.
func TestRestore(t *testing.T) {
	own := verdict.CountLimit{CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: 1}
	l := verdict.Off()
	n, found := &machine.Node{Rules: machine.Rules{Limits: &l}}, windowOf(retried("loop_detected", ""))
	spend := (&rig{}).count(n, &ledger.Ledger{}, []verdict.CountLimit{own})
	shared := machine.KeyOfCount(&own) // of an older version
	shared.Scope = "team"
	found.Given = map[fold.Key]int64{machine.KeyOfCount(&own): 3, shared: 4}
	(&rig{}).feed(n, &machine.Input{Kind: machine.Begin, Window: &found})
	require.EqualValues(t, 3, spend.Counts[0].Extended)
	require.Equal(t, -1, machine.LimitOf(spend, fold.CountKey("turns", "")))
}

// TestPulse protects that signs in the pulse, which are timed from the base of the machine's clock, count where they
// came in the window of a layer that began later, and until when polls pass over it.
func TestPulse(t *testing.T) {
	const base, began, ms = time.Hour, 10 * time.Second, time.Millisecond
	g := attached(t, verdict.Off(), base, fold.Window{StartedAt: noon})
	g.now.Machine, g.now.Offset = true, base
	g.pass(began)
	g.give(g.runs[0], machine.Look)
	require.True(t, g.runs[0].Quiet(began+time.Second-1), "the machine may have slept since")
	require.False(t, g.runs[0].Quiet(began+time.Second))
	l := verdict.Off()
	l.Idle, l.NoProgress, l.FromFirstSign, l.FirstSign = 500*ms, 600*ms, true, 300*ms
	n := g.layer(g.runs[0], l)
	require.True(t, n.Quiet(began+300*ms))
	require.False(t, n.Quiet(began+300*ms+1))
	pulse := n.Pulse.Load()
	g.pass(200 * ms)
	require.True(t, pulse.At(false, true, began+100*ms), "it is the first")
	g.give(n, machine.Look)
	require.Equal(t, base+began+600*ms+1, g.tree.Due(), "since the first sign")
	pulse.At(true, true, began+150*ms)
	g.give(n, machine.Look)
	require.Equal(t, base+began+650*ms+1, g.tree.Due(), "since the last activity")
	g.pass(400 * ms)
	pulse.At(false, true, began+600*ms)
	g.give(n, machine.Look)
	require.Equal(t, base+began+750*ms+1, g.tree.Due(), "since the progress")
	pulse.At(true, true, g.now.At-g.now.Offset-ms/2)
	pulse.At(true, true, g.now.At-g.now.Offset)
	g.give(n, machine.Look)
	require.Equal(t, g.now.At+500*ms+1, g.tree.Due(), "of two that are close the second, and not later than now")
	silence, signalled := n.Silence(g.now)
	require.Zero(t, silence)
	require.True(t, signalled)
	require.True(t, n.MayBeQuiet())
	require.False(t, newRig(t, machine.Rules{}, hour()).runs[0].MayBeQuiet(), "on a clock of the host's")
}
