//go:build !linux

package testrun

// InMemory does nothing: only Linux has a file system in memory at a place that is known.
func InMemory() {}
