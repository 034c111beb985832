// Package ordered puts lists in order, and keeps what is due in a heap. It has one sort for all types. Package slices
// has one of each, some twenty kilobytes for a large struct, which every program would link that has a run.
package ordered

import (
	"maps"
	"slices"
	"sort"
)

// Sort sorts the list. Elements that compare as equal keep their order.
func Sort[T any](list []T, compare func(a, b T) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}

// Keys returns the keys of a map in order.
func Keys[K comparable, V any](of map[K]V, compare func(a, b K) int) []K {
	keys := slices.AppendSeq(make([]K, 0, len(of)), maps.Keys(of))
	Sort(keys, compare)
	return keys
}
