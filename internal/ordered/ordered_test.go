package ordered_test

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/ordered"
)

// TestSort compares with the stable sort of package slices.
func TestSort(t *testing.T) {
	type pair struct{ key, place int }
	byKey := func(a, b pair) int { return cmp.Compare(a.key, b.key) }
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		list := make([]pair, n)
		for i := range list {
			list[i] = pair{random.IntN(n/3 + 1), i}
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, byKey)
		ordered.Sort(list, byKey)
		require.Equal(t, want, list)
	}
}

func TestKeys(t *testing.T) {
	require.Equal(t, []string{"a", "b", "c"}, ordered.Keys(map[string]int{"b": 1, "c": 2, "a": 3}, cmp.Compare[string]))
	require.Empty(t, ordered.Keys(map[string]int{}, cmp.Compare[string]))
}

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
				requireTakes(t, &heap, inOrder(), at, then)
			case 2:
				news := !set || then < before
				require.Equal(t, news, heap.Within(&items[i], then), "seed %d", seed)
				if news {
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

// requireTakes takes what is due by now, of the heap and of what it must have.
func requireTakes(t *testing.T, heap *ordered.Heap[int], all []int, at map[int]time.Duration, now time.Duration) {
	t.Helper()
	took := heap.Take(now)
	if len(all) == 0 || at[all[0]] > now {
		require.Nil(t, took)
		return
	}
	require.Equal(t, all[0], took.Of)
	delete(at, took.Of)
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

// TestHeapForgets protects the memory of what has been removed, wherever it stood.
func TestHeapForgets(t *testing.T) {
	var heap ordered.Heap[int]
	gone := make([]weak.Pointer[due], 3)
	func() {
		items := []*due{{Of: 1}, {Of: 2}, {Of: 3}}
		for i, item := range items {
			gone[i] = weak.Make(item)
			heap.Set(item, time.Duration(i))
		}
		for _, item := range items {
			heap.Remove(item)
		}
	}()
	runtime.GC()
	for i, item := range gone {
		require.Nil(t, item.Value(), "item %d", i)
	}
	runtime.KeepAlive(&heap)
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
