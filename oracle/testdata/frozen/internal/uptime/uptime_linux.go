package uptime

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The kernel's clocks. Monotonic time stops while the machine sleeps, boot time does not.
const (
	clockRealtime  = 0
	clockMonotonic = 1
	clockBoottime  = 7
)

const (
	// noise is the most that clock steering, and the time between two readings, can look like sleep.
	noise = 10 * time.Millisecond
	// maxAge is how old a reading can be when it is compared.
	maxAge = time.Minute
)

// Exact says that sleep is measured exactly. Then a [Mark] knows whether it comes from the machine's clock.
const Exact = true

// A sample is how long the machine had slept when its wall clock was ahead of its monotonic clock by drift. Sleep
// changes the drift. While it is the same, no system calls are needed; they cost more than the rest of a new run.
type sample struct {
	drift time.Duration
	slept time.Duration
}

var (
	origin = time.Now()
	last   atomic.Pointer[sample]
)

// Start marks the moment now, which the caller just read with [time.Now].
func Start(now time.Time) Mark {
	s := currentSample(now)
	if s == nil {
		return At(now)
	}
	return Mark{at: now, slept: s.slept, machine: true}
}

// Slept returns how long the machine slept from the mark to now, which the caller just read with [time.Now]. It returns
// 0 for a mark that does not come from the machine's clock.
func (m Mark) Slept(now time.Time) time.Duration {
	if !m.machine {
		return 0
	}
	if s := currentSample(now); s != nil && s.slept-m.slept > noise {
		return s.slept - m.slept
	}
	return 0
}

// currentSample returns the sample of the moment now. It returns nil if now does not come from the machine's clock.
func currentSample(now time.Time) *sample {
	if now == now.Round(0) { // a bubble's time has no monotonic reading
		return nil
	}
	drift := wallAhead(origin, now)
	if s := last.Load(); s != nil && (drift-s.drift).Abs() < noise/2 {
		return s
	}
	if now.Sub(time.Unix(0, read(clockRealtime))).Abs() > maxAge {
		return nil
	}
	s := &sample{drift, sleptSinceBoot()}
	last.Store(s)
	return s
}

// sleptSinceBoot returns how long the machine slept since it was started. It takes the least of a few comparisons,
// because a goroutine that is preempted between two readings makes the result too large, and never too small.
func sleptSinceBoot() time.Duration {
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
