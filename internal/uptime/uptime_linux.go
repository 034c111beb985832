package uptime

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The kernel's clocks: monotonic stands still while the machine sleeps, boot time does not.
const (
	clockRealtime  = 0
	clockMonotonic = 1
	clockBoottime  = 7
)

const (
	// noise bounds what reading two clocks one after the other, and their steering, can feign.
	noise = 10 * time.Millisecond
	// near bounds how old a reading can be by the time it is compared.
	near = time.Minute
)

// Exact says that sleep is counted exactly, and so that a [Mark] knows the machine's clock.
const Exact = true

// sample is one comparison of the clocks, kept because the system calls cost more than all the rest of a new run.
type sample struct {
	drift time.Duration
	slept time.Duration
}

var (
	origin = time.Now()
	last   atomic.Pointer[sample]
)

// Start marks the moment now, which was just read with [time.Now].
func Start(now time.Time) Mark {
	if now == now.Round(0) { // a bubble's time has no monotonic reading
		return At(now)
	}
	drift := gap(origin, now)
	if s := last.Load(); s != nil && (drift-s.drift).Abs() < noise/2 {
		return Mark{at: now, slept: s.slept, machine: true}
	}
	if now.Sub(time.Unix(0, read(clockRealtime))).Abs() > near {
		return At(now)
	}
	s := &sample{drift, total()}
	last.Store(s)
	return Mark{at: now, slept: s.slept, machine: true}
}

// Slept returns how long the machine slept since the mark. A mark of another clock, and one
// that is newer than what two clocks can tell apart, has not slept.
func (m Mark) Slept() time.Duration {
	if !m.machine || m.Since() < noise {
		return 0
	}
	if d := total() - m.slept; d > noise {
		return d
	}
	return 0
}

// total returns how long the machine slept since it was started: the least of a few comparisons, since a goroutine that is
// put off between the two readings only ever makes one too large.
func total() time.Duration {
	least := time.Duration(1<<63 - 1)
	for range 8 {
		before := read(clockMonotonic)
		least = min(least, time.Duration(read(clockBoottime)-before))
		if read(clockMonotonic)-before < int64(noise)/100 {
			break
		}
	}
	return least
}

func read(clock uintptr) int64 {
	var t syscall.Timespec
	if _, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); failed != 0 {
		return 0
	}
	return t.Nano()
}
