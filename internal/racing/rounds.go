package racing

import (
	"os"
	"testing"
)

// Long reports whether tests shall do all that they can, which takes minutes: see make long.
var Long = os.Getenv("WATCHDOG_LONG") != ""

// Rounds returns how often or for how long a test does something: all in a long run, else few, and a tenth of that
// under the race detector.
func Rounds[N int | ~int64 | uint64](few, all N) N {
	switch {
	case Long:
		return all
	case Enabled:
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
