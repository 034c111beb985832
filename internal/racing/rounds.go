package racing

import "os"

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

// Tenth returns a tenth of n, rounded up, under the race detector, and n without it.
func Tenth(n uint64) uint64 {
	if Enabled {
		return (n + 9) / 10
	}
	return n
}
