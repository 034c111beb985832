// Package testrun says how much the tests of the stores do in this run, and where their files are.
package testrun

import (
	"os"
	"strconv"
	"testing"
)

// part is what WATCHDOG_LONG is: 1 if tests shall do all that they can, which takes minutes, 3 for a third of it.
var part, _ = strconv.Atoi(os.Getenv("WATCHDOG_LONG"))

// Long reports whether tests shall do what takes minutes: see make long.
var Long = part > 0

// Rounds returns how often or for how long a test does something: all, or a part of it, in a long run, else few, and a
// tenth of that under the race detector.
func Rounds[N int | ~int64 | uint64](few, all N) N {
	switch {
	case Long:
		return max(few, all/N(part))
	case Racing:
		return (few + 9) / 10
	}
	return few
}

// LongOnly skips a test unless the run is long.
func LongOnly(t *testing.T) {
	t.Helper()
	if !Long {
		t.Skip("runs in long tests only")
	}
}
