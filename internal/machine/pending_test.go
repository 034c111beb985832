package machine_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/racing"
)

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
