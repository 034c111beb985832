//go:build race

package testrun

// Racing reports whether the race detector is on, which makes tests ten times slower.
const Racing = true
