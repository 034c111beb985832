//go:build !linux

// Package ramdisk has the tests of stores keep their files in memory, where that is known to be possible.
package ramdisk

// Use does nothing: only Linux has a file system in memory at a place that is known.
func Use() {}
