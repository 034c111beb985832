package pending_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/pending"
	"github.com/seed62658d38/watchdog/internal/racing"
)

var errFull = errors.New("disk full")

// An entry has a number, in the order in which entries were put.
type entry struct {
	pending.State
	n     int
	spare bool
}

// A line is a queue, all that was put in it, and what waited when it was checked last.
type line struct {
	pending.Queue[*entry]
	all, waited []*entry
}

func (l *line) put(s pending.State) *entry {
	e := &entry{State: s, n: len(l.all)}
	l.all = append(l.all, e)
	l.Put(e)
	return e
}

// fill puts so many entries that each can be dropped.
func (l *line) fill(n int) {
	for range n {
		l.put(pending.State{})
	}
}

func numbers(entries []*entry) (all []int) {
	for _, e := range entries {
		all = append(all, e.n)
	}
	return all
}

// TestDropped protects what a full line keeps.
func TestDropped(t *testing.T) {
	t.Run("the oldest is dropped for one too many, and says so", func(t *testing.T) {
		var l line
		l.fill(pending.Max)
		l.Fail(errFull, l.All())
		require.Len(t, l.All(), pending.Max)
		last := l.put(pending.State{})
		require.Equal(t, numbers(l.all[1:]), numbers(l.All()))
		require.ErrorIs(t, l.all[0].Err(), pending.ErrDropped)
		require.ErrorIs(t, l.all[1].Err(), errFull)
		require.NoError(t, last.Err())
	})
	t.Run("a pause that is open is kept, and one that nobody tried to release", func(t *testing.T) {
		var l line
		opening := l.put(pending.State{Opens: true})
		l.fill(pending.Max)
		require.Contains(t, l.All(), opening)
		release := l.put(pending.State{Closes: true, Opening: &opening.State})
		l.fill(pending.Max)
		require.Subset(t, l.All(), []*entry{opening, release})
		require.Len(t, l.All(), pending.Max)
	})
	t.Run("one whose release was refused is dropped with it", func(t *testing.T) {
		var l line
		opening := l.put(pending.State{Opens: true})
		release := l.put(pending.State{Closes: true, Opening: &opening.State})
		l.fill(pending.Max - 2)
		l.Fail(errFull, []*entry{release})
		l.fill(1)
		require.Equal(t, numbers(l.all[2:]), numbers(l.All()))
		require.ErrorIs(t, opening.Err(), pending.ErrDropped)
		require.ErrorIs(t, release.Err(), pending.ErrDropped)
	})
	t.Run("an opening whose release is stored goes alone, a release whose opening is stored never", func(t *testing.T) {
		var l line
		first := l.put(pending.State{Opens: true})
		l.Settle([]*entry{l.put(pending.State{Closes: true, Opening: &first.State})})
		second := l.put(pending.State{Opens: true})
		l.Settle([]*entry{second})
		release := l.put(pending.State{Closes: true, Opening: &second.State})
		l.Fail(errFull, []*entry{release})
		l.fill(2 * pending.Max)
		require.NotContains(t, l.All(), first)
		require.Contains(t, l.All(), release)
	})
	t.Run("where all are needed none is dropped", func(t *testing.T) {
		var l line
		for range 2 * pending.Max {
			l.put(pending.State{Opens: true})
		}
		stop := l.put(pending.State{})
		require.Equal(t, numbers(l.all), numbers(l.All()))
		require.NoError(t, stop.Err())
	})
	t.Run("spare ones wait before the others, and do not count with them", func(t *testing.T) {
		var l line
		l.fill(pending.Max)
		for n := range pending.MaxSpare {
			require.Empty(t, l.PutSpare(&entry{n: -n - 1}))
		}
		dropped := l.PutSpare(&entry{n: -pending.MaxSpare - 1})
		require.Equal(t, []int{-1}, numbers(dropped))
		require.ErrorIs(t, dropped[0].Err(), pending.ErrSpareDropped)
		require.Equal(t, -2, l.All()[0].n)
		require.Equal(t, numbers(l.all), numbers(l.All()[pending.MaxSpare:]))
		l.fill(1)
		require.Len(t, l.All(), pending.MaxSpare+pending.Max, "none is dropped for one of the others")
		require.ErrorIs(t, l.all[0].Err(), pending.ErrDropped)
	})
}

func TestSettle(t *testing.T) {
	var l line
	l.fill(3)
	require.False(t, l.Empty())
	l.Fail(errFull, l.All())
	l.Settle([]*entry{l.all[1], l.all[0]})
	require.Equal(t, []int{2}, numbers(l.All()))
	require.True(t, l.all[0].Stored())
	require.NoError(t, l.all[0].Err(), "the store has it after all")
	require.False(t, l.all[2].Stored())
	l.All()[0] = nil
	require.Equal(t, []int{2}, numbers(l.All()), "a copy")
	l.Settle(l.All())
	require.True(t, l.Empty())
}

// TestHistories puts, tries and stores at random, and checks after each step that the line is in order, that no pause
// is left half, that what was decided last is there, and that nothing is gone that is neither stored nor said to be
// dropped.
func TestHistories(t *testing.T) {
	for seed := range racing.Rounds[uint64](5, 100) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var l line
		var open []*entry
		for range 400 {
			var newest *entry
			switch n := rng.IntN(10); {
			case n < 4:
				newest = l.put(pending.State{})
			case n < 6:
				newest = l.put(pending.State{Opens: true})
				open = append(open, newest)
			case n < 7 && len(open) > 0:
				at := rng.IntN(len(open))
				newest = l.put(pending.State{Closes: true, Opening: &open[at].State})
				open = slices.Delete(open, at, at+1)
			case n < 7:
				newest = l.put(pending.State{Closes: true}) // of a pause of another process
			case n < 8:
				l.PutSpare(&entry{spare: true})
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
		if e.spare {
			require.Negative(t, last, "before all others")
			continue
		}
		require.Greater(t, e.n, last)
		last = e.n
		others++
		if e.Opens || e.Closes {
			pauses = append(pauses, e)
		} else if e != newest {
			plain++
		}
	}
	require.Equal(t, numbers(pauses), numbers(l.Pauses()))
	require.True(t, newest == nil || slices.Contains(waiting, newest))
	require.True(t, others <= pending.Max || plain == 0, "one more could have been dropped")
	for _, e := range l.waited {
		if slices.Contains(waiting, e) || e.Stored() {
			continue
		}
		require.ErrorIs(t, e.Err(), pending.ErrDropped)
		if e.Opening != nil {
			require.False(t, e.Opening.Stored(), "the store has the opening alone")
			require.ErrorIs(t, e.Opening.Err(), pending.ErrDropped)
		}
	}
	l.waited = waiting
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
