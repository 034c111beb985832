//go:build !race

// Package racing says whether the race detector is on, for tests to repeat less of what it makes ten times slower: what they look for then shows in fewer
// repetitions, and the plain run has them all.
package racing

// Enabled reports that it is.
const Enabled = false
