package racing

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// part is what WATCHDOG_LONG is: 1 if tests shall do all that they can, which takes minutes, 3 for a third of it.
var part = partOf(os.Getenv("WATCHDOG_LONG"))

// Long reports whether tests shall do what takes minutes: see make long.
var Long = part > 0

func partOf(text string) int {
	n, err := strconv.Atoi(cmp.Or(text, "0"))
	if err != nil || n < 0 {
		panic(fmt.Sprintf("WATCHDOG_LONG is %q; set it to 1 for all that tests can do, or to 3 for a third of it", text))
	}
	return n
}

// Rounds returns how often or for how long a test does something: all, or a part of it, in a long run, else few, and a
// tenth of that under the race detector.
func Rounds[N int | ~int64 | uint64](few, all N) N {
	switch {
	case Long:
		return max(few, all/N(part))
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
