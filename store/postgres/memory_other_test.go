//go:build !linux

package postgres_test

// useMemory does nothing: only Linux has a file system in memory at a place that is known.
func useMemory() {}
