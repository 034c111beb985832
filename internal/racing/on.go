//go:build race

// Package racing says whether the race detector is on. It makes tests ten times slower, so tests repeat less under it.
// Fewer repetitions are enough to find a race, and a run without the detector does all of them.
package racing

// Enabled reports whether the race detector is on.
const Enabled = true
