//go:build !race

// Package racing says how often tests repeat what they do: less under the race detector, which makes them ten times
// slower and finds a race in few repetitions, and all of it in a long run.
package racing

// Enabled reports whether the race detector is on.
const Enabled = false
