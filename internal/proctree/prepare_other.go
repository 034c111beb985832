//go:build !linux || 386 || arm || mips || mipsle || mips64 || mips64le

package proctree

// Prepare does nothing where there is no guard.
func Prepare() {}
