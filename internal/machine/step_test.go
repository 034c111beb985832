package machine_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// TestStep protects how a run ends: once, for the first cause.
func TestStep(t *testing.T) {
	stop := &record.Cancel{Reason: "wall_clock_exceeded"}
	tripped := func(t *testing.T) (*rig, *machine.Node) {
		g := newRig(t, machine.Rules{}, hour())
		require.Equal(t, time.Hour+1, g.tree.Due())
		require.Empty(t, g.tickAt(time.Hour))
		require.Equal(t, kinds(machine.Exchange), g.tickAt(time.Hour+1))
		require.Equal(t, machine.Recording, g.runs[0].Phase())
		require.Equal(t, verdict.WallClock, g.out[0].Trip.Verdict.Limit)
		return g, g.runs[0]
	}
	t.Run("a limit that is exceeded is recorded and then the end", func(t *testing.T) {
		g, n := tripped(t)
		require.Equal(t, kinds(machine.Ended), g.recorded(n, fold.Window{Stop: stop}))
		require.Equal(t, machine.Over, n.Phase())
		require.Same(t, stop, g.out[0].Stop)
		require.Equal(t, verdict.Never, g.tree.Due())
	})
	t.Run("an extension takes it back, and the run is looked at at once", func(t *testing.T) {
		g, n := tripped(t)
		require.Empty(t, g.recorded(n, fold.Window{Extended: time.Minute}))
		require.Equal(t, machine.Running, n.Phase())
		require.Equal(t, g.now.At, g.tree.Due())
		require.Empty(t, g.give(n, machine.Tick))
		require.Equal(t, time.Hour+time.Minute+1, g.tree.Due())
	})
	t.Run("the first cause wins", func(t *testing.T) {
		g, n := tripped(t)
		in, out := g.end(n)
		require.True(t, in.Wait)
		require.Empty(t, out)
		for _, kind := range []machine.InputKind{machine.Complete, machine.Cancel, machine.OpenHold} {
			in := machine.Input{Kind: kind, Guard: &machine.Guard{}}
			require.Empty(t, g.feed(n, &in))
			require.True(t, in.Wait)
			require.Nil(t, in.Trip)
		}
		g.now.Parent = &machine.ParentEnd{Cause: errClosed}
		require.Empty(t, g.give(n, machine.Parent))
		require.Equal(t, kinds(machine.Ended), g.recorded(n, fold.Window{Stop: stop}))
		require.Same(t, stop, g.out[0].Stop)
		in, out = g.end(n)
		require.False(t, in.Wait || in.Done)
		require.Empty(t, out)
	})
	t.Run("a trip that is taken back yields to the end of the parent", func(t *testing.T) {
		g, n := tripped(t)
		g.now.Parent = &machine.ParentEnd{Cause: errClosed}
		require.Equal(t, kinds(machine.Ended), g.recorded(n, fold.Window{Extended: time.Minute}))
		require.True(t, g.out[0].ByParent)
	})
	inHour(t, "a run is complete once the store has that", func(t *testing.T, g *rig) {
		h := g.hold(g.runs[0], "approval", verdict.HoldLimits{Cap: time.Hour}, true)
		g.pass(2 * time.Minute)
		require.True(t, g.release(h))
		g.pass(time.Minute)
		in := machine.Input{Kind: machine.Complete}
		require.Empty(t, g.feed(g.runs[0], &in))
		var p record.Complete
		require.NoError(t, json.Unmarshal(in.Trip.CompleteEvent(&g.runs[0].Name).Payload, &p))
		require.InDelta(t, 60, float64(p.ElapsedSeconds), 0)
		require.InDelta(t, 120, float64(p.PausedSeconds), 0)
		require.Equal(t, time.Minute, g.runs[0].Moment(g.now).Worked)
		require.Empty(t, g.recorded(g.runs[0], fold.Window{}), "it failed")
		require.Equal(t, machine.Running, g.runs[0].Phase())
		g.feed(g.runs[0], &in)
		require.Equal(t, kinds(machine.Ended, machine.Retry), g.recorded(g.runs[0], fold.Window{CompletedAt: noon}))
		require.Equal(t, machine.ErrComplete, g.out[0].Cause)
	})
	inHour(t, "a window that has its stop is over at its begin", func(t *testing.T, g *rig) {
		n := &machine.Node{Rules: g.runs[0].Rules}
		var other machine.Tree
		out := other.Step(g.now, &machine.Input{Kind: machine.Begin, Node: n, Window: &fold.Window{Stop: stop}})
		require.Len(t, out, 1)
		require.Same(t, stop, out[0].Stop)
		require.Equal(t, machine.Over, n.Phase())
	})
	inHour(t, "another guard's cancel that is observed is asked for, and the run goes on", func(t *testing.T, g *rig) {
		in := machine.Input{
			Kind: machine.Cancel, Guard: &machine.Guard{
				Observe: true, Reason: "no_output",
				Verdict: verdict.Verdict{Action: verdict.Cancel, Directive: verdict.DirectCancel},
			},
		}
		require.Equal(t, kinds(machine.Record), g.feed(g.runs[0], &in))
		require.True(t, in.Done)
		require.True(t, g.out[0].Entry.Notice.Observed())
		require.Equal(t, machine.Running, g.runs[0].Phase())
		in.Guard.Observe, in.Result = false, machine.Result{}
		require.Equal(t, kinds(machine.Exchange), g.feed(g.runs[0], &in))
		require.NotNil(t, in.Trip)
	})
	t.Run("the end of the parent is recorded if it is asked for", func(t *testing.T) {
		g := newRig(t, machine.Rules{Records: true}, hour())
		g.now.Parent = &machine.ParentEnd{Cause: errClosed}
		require.Equal(t, kinds(machine.Ended, machine.Record), g.give(g.runs[0], machine.Look))
		require.Equal(t, errClosed, g.out[0].Cause)
		require.Equal(t, event.Interrupt, g.out[1].Entry.Events()[0].Type)
	})
}

// TestStepAdopt protects what a run learns from its store.
func TestStepAdopt(t *testing.T) {
	adopt := func(g *rig, known fold.Window) machine.Input {
		in := machine.Input{Kind: machine.Adopt, Window: &known}
		g.feed(g.runs[0], &in)
		return in
	}
	inHour(t, "an extension", func(t *testing.T, g *rig) {
		require.True(t, adopt(g, fold.Window{Extended: time.Hour}).Done)
		require.Equal(t, 2*time.Hour, g.runs[0].Budget())
		require.True(t, adopt(g, fold.Window{Extended: time.Hour}).Done)
		require.Equal(t, 2*time.Hour, g.runs[0].Budget(), "it is the same")
	})
	t.Run("what a counted limit was given, once", func(t *testing.T) {
		l := hour()
		l.Counts = []verdict.CountLimit{{CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: 1}}
		g := newRig(t, machine.Rules{}, l)
		spend := g.count(g.runs[0], &ledger.Ledger{}, l.Counts)
		for range 2 {
			adopt(g, fold.Window{Given: map[fold.Key]int64{machine.KeyOfCount(&l.Counts[0]): 3}})
			require.EqualValues(t, 3, spend.Counts[0].Extended)
		}
	})
	t.Run("its end", func(t *testing.T) {
		for _, known := range []fold.Window{{Stop: &record.Cancel{}}, {CompletedAt: noon}} {
			g := newRig(t, machine.Rules{}, hour())
			require.True(t, adopt(g, known).Done)
			require.Equal(t, machine.Over, g.runs[0].Phase())
			require.False(t, adopt(g, known).Done)
		}
	})
	t.Run("one that is disabled has no timer", func(t *testing.T) {
		g := newRig(t, machine.Rules{Disabled: true}, hour())
		require.True(t, adopt(g, fold.Window{Extended: time.Hour}).Done)
		require.Equal(t, verdict.Never, g.tree.Due())
	})
	inHour(t, "nothing while its end is recorded", func(t *testing.T, g *rig) {
		g.tickAt(2 * time.Hour)
		in := adopt(g, fold.Window{Extended: time.Hour})
		require.True(t, in.Wait)
		require.False(t, in.Done)
		require.Equal(t, time.Hour, g.runs[0].Budget())
	})
}

// TestStepHolds protects holds and pauses.
func TestStepHolds(t *testing.T) {
	limits := verdict.HoldLimits{Cap: 10 * time.Minute}
	inHour(t, "a hold that stops the wall clock stops that of all layers", func(t *testing.T, g *rig) {
		a := g.layer(g.runs[0], hour())
		b := g.layer(g.runs[0], hour())
		h := g.hold(a, "approval", limits, true)
		c := g.layer(b, hour())
		g.pass(time.Minute)
		for _, n := range g.runs {
			require.Zero(t, g.worked(n), n.Number)
		}
		require.True(t, g.release(h))
		require.False(t, g.release(h))
		g.pass(time.Minute)
		for _, n := range []*machine.Node{g.runs[0], a, b, c} {
			require.Equal(t, time.Minute, g.worked(n), n.Number)
		}
		require.Equal(t, g.now.At-time.Minute, g.tree.Due())
		g.give(g.runs[0], machine.Tick)
		require.Equal(t, time.Hour+time.Minute+1, g.tree.Due())
	})
	t.Run("a hold of a layer is one around it, until the layer ends", func(t *testing.T) {
		l := hour()
		l.Idle = time.Minute
		g := newRig(t, machine.Rules{}, l)
		a := g.layer(g.runs[0], hour())
		h := g.hold(a, "build", limits, false)
		require.Equal(t, 1, g.runs[0].Seen().Signs.Holds.Len())
		require.Equal(t, 10*time.Minute+1, g.tree.Due())
		g.pass(5 * time.Minute)
		_, out := g.end(a)
		require.Equal(t, kinds(machine.Ended), out)
		require.True(t, h.Closed())
		require.False(t, g.release(h))
		require.Zero(t, g.runs[0].Seen().Signs.Holds.Len())
		g.give(g.runs[0], machine.Tick)
		require.Equal(t, 6*time.Minute+1, g.tree.Due(), "its silence begins again")
	})
	inHour(t, "a key is open once, and a cap ends the run", func(t *testing.T, g *rig) {
		g.hold(g.runs[0], "build", limits, false)
		in := machine.Input{Kind: machine.OpenHold, ID: verdict.HoldID{Key: "build"}}
		g.feed(g.runs[0], &in)
		require.True(t, in.Held)
		require.Nil(t, in.Hold)
		require.Equal(t, kinds(machine.Exchange), g.tickAt(10*time.Minute+1))
		require.Equal(t, "build", g.out[0].Trip.Verdict.Hold)
	})
	t.Run("a layer that is cut off leaves alone what has ended around it", func(t *testing.T) {
		g := newRig(t, machine.Rules{}, verdict.Off())
		a := g.layer(g.runs[0], hour())
		b := g.layer(a, verdict.Off())
		g.tickAt(time.Hour + 1)
		g.end(g.runs[0])
		g.hold(b, "build", limits, false)
		g.recorded(a, fold.Window{Extended: time.Hour})
		for _, e := range g.out {
			require.NotSame(t, g.runs[0], e.Node)
		}
		require.Equal(t, verdict.Never, g.tree.Due())
	})
	t.Run("what was exceeded by then is found before a hold is opened or closed", func(t *testing.T) {
		l := hour()
		l.Idle = time.Minute
		g := newRig(t, machine.Rules{}, l)
		a := g.layer(g.runs[0], hour())
		g.pass(2 * time.Minute)
		h := g.hold(a, "build", limits, false)
		require.Equal(t, machine.Recording, g.runs[0].Phase(), "it was silent")
		g.pass(10*time.Minute + 1)
		require.True(t, g.release(h))
		require.Equal(t, machine.Recording, a.Phase(), "the hold was open for too long")
	})
	inHour(t, "a pause of nearly any length stops layers, too", func(t *testing.T, g *rig) {
		a := g.layer(g.runs[0], hour())
		g.pass(time.Minute)
		g.hold(g.runs[0], "approval", verdict.HoldLimits{Cap: verdict.Never - 1}, true)
		g.pass(time.Minute)
		require.Equal(t, time.Minute, g.worked(g.runs[0]))
		require.Equal(t, time.Minute, g.worked(a))
	})
}

// TestStepSpend protects that a charge is judged with those around it.
func TestStepSpend(t *testing.T) {
	l := verdict.Off()
	l.Counts = []verdict.CountLimit{{CountID: verdict.CountID{Kind: verdict.KindRequests}, Max: 2}}
	g := newRig(t, machine.Rules{}, l)
	var books ledger.Ledger
	var layer ledger.Account
	g.count(g.runs[0], &books, l.Counts)
	a := g.layer(g.runs[0], verdict.Off())
	books.OpenLayer(&layer, g.runs[0].Account, verdict.NewSpend(nil, false), "")
	admit := func() (o ledger.Outcome) {
		c := ledger.Call{}
		c.Use.Counts[verdict.KindRequests] = 1
		layer.Admit(&c, &o)
		return o
	}
	require.False(t, admit().Look)
	require.False(t, admit().Look)
	require.True(t, admit().Look)
	require.Equal(t, kinds(machine.Exchange), g.give(a, machine.LookAround))
	require.Same(t, g.runs[0], g.out[0].Node)
	key := g.out[0].Trip.On
	require.Empty(t, g.recorded(g.runs[0], fold.Window{Given: map[fold.Key]int64{key: 1}}))
	require.Equal(t, ledger.Charged, admit().Did)
}

var errFull = errors.New("disk full")

type entry = machine.Entry

// A line is what is pending, all that was put in it, and what waited when it was checked last. Each entry has a number,
// in the order in which they were put; that of a spare one is negative.
type line struct {
	machine.Pending
	all, waited []*entry
	number      map[*entry]int
}

func (l *line) numbered(e *entry, n int) *entry {
	if l.number == nil {
		l.number = map[*entry]int{}
	}
	l.number[e] = n
	return e
}

func (l *line) put(s machine.State) *entry {
	e := l.numbered(&entry{State: s}, len(l.all))
	l.all = append(l.all, e)
	l.Put(e)
	return e
}

// fill puts so many entries that each can be dropped.
func (l *line) fill(n int) {
	for range n {
		l.put(machine.State{})
	}
}

func (l *line) numbers(entries []*entry) (all []int) {
	for _, e := range entries {
		all = append(all, l.number[e])
	}
	return all
}

// TestDropped protects what a full line keeps.
func TestDropped(t *testing.T) {
	t.Run("the oldest is dropped for one too many, and says so", func(t *testing.T) {
		var l line
		l.fill(machine.MaxPending)
		l.Fail(errFull, l.All())
		require.Len(t, l.All(), machine.MaxPending)
		last := l.put(machine.State{})
		require.Equal(t, l.numbers(l.all[1:]), l.numbers(l.All()))
		require.ErrorIs(t, l.all[0].Err(), machine.ErrDropped)
		require.ErrorIs(t, l.all[1].Err(), errFull)
		require.NoError(t, last.Err())
	})
	t.Run("a pause that is open is kept, and one that nobody tried to release", func(t *testing.T) {
		var l line
		opening := l.put(machine.State{Opens: true})
		l.fill(machine.MaxPending)
		require.Contains(t, l.All(), opening)
		release := l.put(machine.State{Closes: true, Opening: &opening.State})
		l.fill(machine.MaxPending)
		require.Subset(t, l.All(), []*entry{opening, release})
		require.Len(t, l.All(), machine.MaxPending)
	})
	t.Run("one whose release was refused is dropped with it", func(t *testing.T) {
		var l line
		opening := l.put(machine.State{Opens: true})
		release := l.put(machine.State{Closes: true, Opening: &opening.State})
		l.fill(machine.MaxPending - 2)
		l.Fail(errFull, []*entry{release})
		l.fill(1)
		require.Equal(t, l.numbers(l.all[2:]), l.numbers(l.All()))
		require.ErrorIs(t, opening.Err(), machine.ErrDropped)
		require.ErrorIs(t, release.Err(), machine.ErrDropped)
	})
	t.Run("an opening whose release is stored goes alone, a release whose opening is stored never", func(t *testing.T) {
		var l line
		first := l.put(machine.State{Opens: true})
		l.Settle([]*entry{l.put(machine.State{Closes: true, Opening: &first.State})})
		second := l.put(machine.State{Opens: true})
		l.Settle([]*entry{second})
		release := l.put(machine.State{Closes: true, Opening: &second.State})
		l.Fail(errFull, []*entry{release})
		l.fill(2 * machine.MaxPending)
		require.NotContains(t, l.All(), first)
		require.Contains(t, l.All(), release)
	})
	t.Run("where all are needed none is dropped", func(t *testing.T) {
		var l line
		for range 2 * machine.MaxPending {
			l.put(machine.State{Opens: true})
		}
		stop := l.put(machine.State{})
		require.Equal(t, l.numbers(l.all), l.numbers(l.All()))
		require.NoError(t, stop.Err())
	})
	t.Run("spare ones wait before the others, and do not count with them", func(t *testing.T) {
		var l line
		l.fill(machine.MaxPending)
		for n := range machine.MaxSpare {
			require.Empty(t, l.PutSpare(l.numbered(&entry{}, -n-1)))
		}
		dropped := l.PutSpare(l.numbered(&entry{}, -machine.MaxSpare-1))
		require.Equal(t, []int{-1}, l.numbers(dropped))
		require.ErrorIs(t, dropped[0].Err(), machine.ErrSpareDropped)
		require.Equal(t, -2, l.number[l.All()[0]])
		require.Equal(t, l.numbers(l.all), l.numbers(l.All()[machine.MaxSpare:]))
		l.fill(1)
		require.Len(t, l.All(), machine.MaxSpare+machine.MaxPending, "none is dropped for one of the others")
		require.ErrorIs(t, l.all[0].Err(), machine.ErrDropped)
	})
}

func TestSettle(t *testing.T) {
	var l line
	l.fill(3)
	require.False(t, l.Empty())
	l.Fail(errFull, l.All())
	l.Settle([]*entry{l.all[1], l.all[0]})
	require.Equal(t, []int{2}, l.numbers(l.All()))
	require.True(t, l.all[0].Stored())
	require.NoError(t, l.all[0].Err(), "the store has it after all")
	require.False(t, l.all[2].Stored())
	l.All()[0] = nil
	require.Equal(t, []int{2}, l.numbers(l.All()), "a copy")
	l.Settle(l.All())
	require.True(t, l.Empty())
}

// TestPendingModel puts, tries and stores at random, and checks after each step that the line is in order, that no
// pause is left half, that what was decided last is there, and that nothing is gone that is neither stored nor said to
// be dropped.
func TestPendingModel(t *testing.T) {
	for seed := range racing.Rounds[uint64](5, 100) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var l line
		var open []*entry
		for range 400 {
			var newest *entry
			switch n := rng.IntN(10); {
			case n < 4:
				newest = l.put(machine.State{})
			case n < 6:
				newest = l.put(machine.State{Opens: true})
				open = append(open, newest)
			case n < 7 && len(open) > 0:
				at := rng.IntN(len(open))
				newest = l.put(machine.State{Closes: true, Opening: &open[at].State})
				open = slices.Delete(open, at, at+1)
			case n < 7:
				newest = l.put(machine.State{Closes: true}) // of a pause of another process
			case n < 8:
				l.PutSpare(l.numbered(&entry{}, -1))
			case n < 9:
				l.Fail(errFull, some(rng, l.All()))
			case rng.IntN(4) == 0:
				l.Settle(some(rng, l.All()))
			}
			l.check(t, newest)
		}
	}
}

// some are a random part of the entries.
func some(rng *rand.Rand, all []*entry) []*entry {
	return slices.DeleteFunc(all, func(*entry) bool { return rng.IntN(3) == 0 })
}

func (l *line) check(t *testing.T, newest *entry) {
	t.Helper()
	waiting := l.All()
	var pauses []*entry
	others, plain, last := 0, 0, -1
	for _, e := range waiting {
		require.False(t, e.Stored())
		if l.number[e] < 0 {
			require.Negative(t, last, "before all others")
			continue
		}
		require.Greater(t, l.number[e], last)
		last = l.number[e]
		others++
		if e.Opens || e.Closes {
			pauses = append(pauses, e)
		} else if e != newest {
			plain++
		}
	}
	require.Equal(t, l.numbers(pauses), l.numbers(l.Pauses()))
	require.True(t, newest == nil || slices.Contains(waiting, newest))
	require.True(t, others <= machine.MaxPending || plain == 0, "one more could have been dropped")
	for _, e := range l.waited {
		if slices.Contains(waiting, e) || e.Stored() {
			continue
		}
		require.ErrorIs(t, e.Err(), machine.ErrDropped)
		if e.Opening != nil {
			require.False(t, e.Opening.Stored(), "the store has the opening alone")
			require.ErrorIs(t, e.Opening.Err(), machine.ErrDropped)
		}
	}
	l.waited = waiting
}
