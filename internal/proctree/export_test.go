//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import "time"

// SetIdleBound changes how long a guard without commands lives. The result sets it back.
func SetIdleBound(d time.Duration) (restore func()) {
	set := func(d time.Duration) {
		theGuards.mu.Lock()
		defer theGuards.mu.Unlock()
		idleBound = d
		theGuards.endIdleLocked()
	}
	before := idleBound
	set(d)
	return func() { set(before) }
}
