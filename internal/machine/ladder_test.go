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
			var books ledger.Ledger
			var account ledger.Account
			books.OpenSession(&account, verdict.NewSpend(l.Counts, false), "")
			n := &machine.Node{Rules: machine.Rules{Limits: &l}}
			n.Count(&account)
			var tree machine.Tree
			tree.Step(machine.Now{Wall: noon}, &machine.Input{Kind: machine.Begin, Node: n, Window: &found})
			require.Equal(t, attempts, n.Seen().Spend.Counts[0].Rung.Attempts)
			require.EqualValues(t, given, n.Seen().Spend.Counts[0].Extended)
		}
	})
	t.Run("one that stands at the attach is put back, too", func(t *testing.T) {
		l := verdict.Off()
		l.Idle, l.Ladders = time.Minute, verdict.Ladders{verdict.Idle: []verdict.Directive{verdict.DirectRetry, verdict.DirectWait}}
		found := windowOf(fold.Event{
			ID: "d", AggregateID: "s", Type: record.EventPrefix + "retry", Timestamp: noon,
			Payload: record.JSON(record.Trip{
				Reason: "idle_exceeded", SessionStartedAt: record.Stamp(noon), Directive: "retry", Rung: 1,
			}),
		})
		g := attached(t, l, time.Second, found)
		g.now.Machine = true
		require.True(t, g.runs[0].Pulse.Load().At(true, false, g.now.At))
		require.Equal(t, kinds(machine.Record), g.give(g.runs[0], machine.Look))
		require.Equal(t, []string{"d"}, resets(t, g.out[0].Entry))
	})
	t.Run("one that stands is awaited by who heeds signals later", func(t *testing.T) {
		l := verdict.Off()
		found := windowOf(fold.Event{
			ID: "d", AggregateID: "s", Type: record.EventPrefix + "retry", Timestamp: noon,
			Payload: record.JSON(record.Trip{
				Reason: "idle_exceeded", SessionStartedAt: record.Stamp(noon), Directive: "retry", Rung: 1,
			}),
		})
		g := attached(t, l, time.Second, found)
		require.Nil(t, g.runs[0].Pulse.Load())
		g.hold(g.runs[0], "build", verdict.HoldLimits{Cap: time.Hour, Idle: time.Minute}, false)
		require.True(t, g.runs[0].Pulse.Load().At(true, false, g.now.At))
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
		l.NoProgress, l.Ladders = time.Minute, verdict.Ladders{verdict.NoProgress: []verdict.Directive{verdict.DirectWait}}
		g := newRig(t, machine.Rules{}, l)
		g.now.Machine = true
		n := g.runs[0]
		require.Equal(t, kinds(machine.Record), g.tickAt(time.Minute+1))
		require.False(t, n.Pulse.Load().At(false, false, g.now.At))
		require.True(t, n.Pulse.Load().At(true, false, g.now.At))
		g.give(n, machine.Awaited)
		g.give(n, machine.Tick)
		require.Equal(t, 2*time.Minute+2, g.tree.Due())
	})
}
