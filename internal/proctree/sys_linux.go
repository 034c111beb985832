//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"errors"
	"syscall"
	"time"
	"unsafe"
)

// System calls and constants that package syscall lacks. System call numbers from 424 on are the same on all
// architectures that this file is built for.
const (
	sysPidfdSendSignal  = 424
	sysPidfdOpen        = 434
	prSetChildSubreaper = 36
	prSetName           = 15
	prGetSecurebits     = 27
	rlimitLocks         = 10
	pollIn              = 1
	pollErr, pollHangup = 8, 16
	unlimited           = ^uint64(0)
	maxRSSUnit          = 1 << 10
)

// pidfdOpen returns a descriptor of the process that has the PID now.
func pidfdOpen(pid int) (int, error) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func pidfdSignal(fd int, sig syscall.Signal) error {
	_, _, errno := syscall.Syscall6(sysPidfdSendSignal, uintptr(fd), uintptr(sig), 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func prctl(option int, value uintptr) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, uintptr(option), value, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// hurry runs do before other programs if the thread may, and as usual if it may not. A tree with hundreds of busy
// processes leaves the guard so little of the machine that it takes seconds to signal them all. The guard starts no
// command meanwhile, so none inherits the priority.
func hurry(do func()) {
	policy, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
	if errno == 0 && policy == usual && setScheduler(roundRobin, 1) == nil {
		hurries = true
		defer func() { hurries = setScheduler(usual, 0) != nil }() // a thread may always go back
	}
	do()
}

const usual, roundRobin = 0, 2 // SCHED_OTHER, SCHED_RR

// hurries says that the guard's only thread is inside of hurry, and runs before other programs.
var hurries bool

// unhurried runs do as usual though it is called inside of hurry.
//
// When a process is reaped, the kernel drops what it remembers of its folder of /proc. If another program is just
// reading there, the kernel tries again and again until that has let go: which it never does if it waits for the
// processor that it is tried on, before all other programs. Then everything waits until the kernel takes that processor
// away from the guard, after 950 milliseconds.
func unhurried(do func()) {
	if hurries && setScheduler(usual, 0) == nil {
		defer setScheduler(roundRobin, 1) //nolint:errcheck // without it the rest is slower
	}
	do()
}

func setScheduler(policy, priority int32) error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, uintptr(policy),
		uintptr(unsafe.Pointer(&priority)))
	if errno != 0 {
		return errno
	}
	return nil
}

// lockLimit returns the soft limit of RLIMIT_LOCKS of a process; PID 0 is the calling process.
func lockLimit(pid int) (uint64, error) {
	var limit struct{ soft, hard uint64 }
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), rlimitLocks, 0,
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return limit.soft, nil
}

// A pollFD is a struct pollfd, as ppoll takes it.
type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// ready reports whether a read would not block: there is data, an error or an end.
func (w pollFD) ready() bool { return w.revents&(pollIn|pollErr|pollHangup) != 0 }

// poll waits until one of the descriptors is ready or the timeout has passed. A negative timeout means no timeout.
func poll(fds []pollFD, timeout time.Duration) error {
	until := time.Now().Add(timeout)
	for {
		var limit *syscall.Timespec
		if timeout >= 0 {
			left := syscall.NsecToTimespec(int64(max(time.Until(until), 0)))
			limit = &left
		}
		_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
			uintptr(unsafe.Pointer(limit)), 0, 0, 0)
		switch {
		case errno == 0:
			return nil
		case !errors.Is(errno, syscall.EINTR):
			return errno
		}
	}
}
