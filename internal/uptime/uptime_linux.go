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

// A sample is what the machine had slept when its wall clock was ahead of its monotonic one by drift. Sleep moves the
// two apart, so that while the drift is the same there is no need for system calls, which cost more than all the rest of a new run.
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
	s := look(now)
	if s == nil {
		return At(now)
	}
	return Mark{at: now, slept: s.slept, machine: true}
}

// Slept returns how long the machine slept from the mark to now, which was just read with [time.Now]. A mark of another
// clock has not slept.
func (m Mark) Slept(now time.Time) time.Duration {
	if !m.machine {
		return 0
	}
	if s := look(now); s != nil && s.slept-m.slept > noise {
		return s.slept - m.slept
	}
	return 0
}

// look returns the sample of the moment now, nil where that is not the machine's time.
func look(now time.Time) *sample {
	if now == now.Round(0) { // a bubble's time has no monotonic reading
		return nil
	}
	drift := gap(origin, now)
	if s := last.Load(); s != nil && (drift-s.drift).Abs() < noise/2 {
		return s
	}
	if now.Sub(time.Unix(0, read(clockRealtime))).Abs() > near {
		return nil
	}
	s := &sample{drift, total()}
	last.Store(s)
	return s
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
