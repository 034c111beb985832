package machine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

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
func retried(reason, hold string) fold.Event {
	return fold.Event{
		ID: "d", AggregateID: "s", Type: record.EventPrefix + "retry", Timestamp: noon,
		Payload: record.JSON(record.Trip{
			Reason: reason, SessionStartedAt: record.Stamp(noon), Directive: "retry", Rung: 1, Hold: hold,
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
		require.Equal(t, record.EventProgress, g.out[0].Entry.Events()[0].Type)
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
			found := windowOf(fold.Event{
				ID: "d", AggregateID: "s", Type: record.EventPrefix + "wait", Timestamp: noon,
				Payload: record.JSON(record.Trip{
					Reason: "requests_exceeded", SessionStartedAt: record.Stamp(noon), Directive: "wait", Rung: 1,
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
	shared, loop := own, fold.CountKey("loop", "", "")
	shared.Scope = "team"
	l := verdict.Off()
	n, found := &machine.Node{Rules: machine.Rules{Limits: &l}}, windowOf(retried("loop_detected", ""))
	spend := (&rig{}).count(n, &ledger.Ledger{}, []verdict.CountLimit{own, shared})
	spend.CountLoops()
	found.Given = map[fold.Key]int64{machine.KeyOfCount(&own): 3, machine.KeyOfCount(&shared): 4}
	machine.RestoreScope(spend, "team", nil, &found)
	require.Zero(t, spend.Counts[0].Extended)
	require.EqualValues(t, 4, spend.Counts[1].Extended)
	(&rig{}).feed(n, &machine.Input{Kind: machine.Begin, Window: &found})
	n.RestoreLoop()
	require.EqualValues(t, 3, spend.Counts[0].Extended)
	require.Equal(t, 2, machine.LimitOf(spend, loop))
	require.Equal(t, -1, machine.LimitOf(spend, fold.CountKey("turns", "", "")))
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
