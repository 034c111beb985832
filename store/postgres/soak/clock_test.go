//go:build linux

package soak_test

import (
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// sinceBoot returns how long ago the machine was started. All processes of the machine agree on it, and nobody can set
// it.
func sinceBoot() time.Duration {
	const clockBoottime = 7
	var t syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0)
	if failed != 0 {
		panic("read the boot clock: " + failed.Error())
	}
	return time.Duration(t.Nano())
}

// A span is a stretch of time since boot.
type span struct{ from, to time.Duration }

func (s span) length() time.Duration { return s.to - s.from }

// touches reports whether the spans have a moment in common.
func (s span) touches(other span) bool { return s.from <= other.to && other.from <= s.to }

// joined returns the spans in order, with those in one that are less than a gap apart.
func joined(spans []span, gap time.Duration) (all []span) {
	spans = slices.SortedFunc(slices.Values(spans), func(a, b span) int { return int(a.from - b.from) })
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && s.from-all[last].to < gap {
			all[last].to = max(all[last].to, s.to)
		} else {
			all = append(all, s)
		}
	}
	return all
}
