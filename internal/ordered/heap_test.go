package ordered_test

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/ordered"
)

type due = ordered.Due[int]

// TestHeap checks the heap against a sorted slice.
func TestHeap(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		items, at := make([]due, rng.IntN(40)+1), map[int]time.Duration{}
		for i := range items {
			items[i].Of, items[i].Turn = i, len(items)-i
		}
		inOrder := func() []int {
			return ordered.Keys(at, func(a, b int) int { return cmp.Or(cmp.Compare(at[a], at[b]), b-a) })
		}
		heap := ordered.Heap[int]{}
		for range 300 {
			i, then := rng.IntN(len(items)), time.Duration(rng.IntN(30))
			before, set := at[i]
			switch rng.IntN(5) {
			case 0:
				heap.Remove(&items[i])
				delete(at, i)
			case 1:
				took := heap.Take(then)
				if all := inOrder(); len(all) == 0 || at[all[0]] > then {
					require.Nil(t, took, "seed %d", seed)
				} else {
					require.Equal(t, all[0], took.Of, "seed %d", seed)
					delete(at, all[0])
				}
			case 2:
				require.Equal(t, !set || then < before, heap.Within(&items[i], then), "seed %d", seed)
				if !set || then < before {
					at[i] = then
				}
			default:
				heap.Set(&items[i], then)
				at[i] = then
			}
			requireFirst(t, &heap, inOrder(), at)
		}
	}
}

// requireFirst checks that the heap has these and nothing else, the first at its top.
func requireFirst(t *testing.T, heap *ordered.Heap[int], all []int, at map[int]time.Duration) {
	t.Helper()
	first := time.Duration(math.MaxInt64)
	if len(all) > 0 {
		first = at[all[0]]
		require.Equal(t, all[0], heap.All()[0].Of)
	}
	require.Equal(t, first, heap.First())
	require.Len(t, heap.All(), len(all))
	require.Equal(t, len(all), heap.Kept())
}

// TestHeapCost checks that setting and removing move no more than the way from the top to the bottom.
func TestHeapCost(t *testing.T) {
	const n = 1000
	rng := rand.New(rand.NewPCG(1, 1))
	items, heap := make([]due, n), ordered.Heap[int]{}
	moved := func(act func()) (n int) {
		before := make([]int, len(items))
		for i := range items {
			before[i] = items[i].Place()
		}
		act()
		for i := range items {
			if items[i].Place() != before[i] {
				n++
			}
		}
		return n
	}
	for i := range items {
		require.LessOrEqual(t, moved(func() { heap.Set(&items[i], time.Duration(rng.IntN(n))) }), bits.Len(n)+1)
	}
	for _, i := range slices.Backward(rng.Perm(n)) {
		require.LessOrEqual(t, moved(func() { heap.Remove(&items[i]) }), bits.Len(n)+2)
	}
}
