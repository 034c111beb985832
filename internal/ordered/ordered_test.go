package ordered_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

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
