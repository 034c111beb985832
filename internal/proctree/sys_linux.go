//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"errors"
	"fmt"
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
	rlimitLocks         = 10
	pollIn              = 1
	pollErr, pollHangup = 8, 16
	maxRSSUnit          = 1 << 10
)

// failed returns the error of a system call, nil if it has succeeded.
func failed(_, _ uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func prctl(option int, value uintptr) error {
	return failed(syscall.RawSyscall6(syscall.SYS_PRCTL, uintptr(option), value, 0, 0, 0, 0))
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
	return failed(syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, uintptr(policy),
		uintptr(unsafe.Pointer(&priority))))
}

// limitOf returns a limit of a process; PID 0 is the calling process.
func limitOf(pid, resource int) (limit syscall.Rlimit, err error) {
	err = failed(syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource), 0,
		uintptr(unsafe.Pointer(&limit)), 0, 0))
	return limit, err
}

// Which children lookAtChild looks at, and the states that it looks for.
const (
	anyPID, onePID            = 0, 1 // P_ALL and P_PID
	childStopped, childExited = 2, 4 // WSTOPPED and WEXITED
)

// lookAtChild returns the PID of a child that is in one of the states, 0 if there is none. A dead one is not reaped.
//
// __WALL is not needed: whatever signal a process has for its exit, it becomes SIGCHLD when it is adopted.
func lookAtChild(which, pid, states int) (found int32, err error) {
	const noHang, noWait = 1, 0x01000000
	var info struct {
		signo, errno, code int32
		_                  int32 // what follows is aligned as a pointer
		pid                int32
		_                  [128]byte
	}
	err = failed(syscall.Syscall6(syscall.SYS_WAITID, uintptr(which), uintptr(pid), uintptr(unsafe.Pointer(&info)),
		uintptr(states|noHang|noWait), 0, 0))
	return info.pid, err
}

// checkCalls returns an error where an old kernel or filter refuses a call without which only a group could be ended.
func checkCalls(self int) error {
	refused := func(call string, err error) error {
		return fmt.Errorf("the system refuses %s, without which processes of the command could not be ended; use Linux 5.3 "+
			"or later, and a filter of system calls (seccomp) that allows it: %w", call, err)
	}
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(self), 0, 0)
	if errno != 0 {
		return refused("pidfd_open", errno)
	}
	m := member{fd: int(fd)}
	defer m.close()
	if _, err := m.signal(0); err != nil {
		return refused("pidfd_send_signal", err)
	}
	if _, err := lookAtChild(anyPID, 0, childExited); err != nil && !errors.Is(err, syscall.ECHILD) {
		return refused("waitid", err)
	}
	return nil
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
		if err := pollOnce(fds, timeout); !errors.Is(err, syscall.EINTR) {
			return err
		}
		if timeout >= 0 {
			timeout = max(time.Until(until), 0)
		}
	}
}

// isReady reports whether there is one of the events, an error or an end now.
func isReady(fd int, events int16) bool {
	fds := []pollFD{{fd: int32(fd), events: events}}
	return poll(fds, 0) == nil && fds[0].ready()
}

// pollOnce is poll, but returns EINTR when a signal comes.
func pollOnce(fds []pollFD, timeout time.Duration) error {
	var limit *syscall.Timespec
	if timeout >= 0 {
		left := syscall.NsecToTimespec(int64(timeout))
		limit = &left
	}
	return failed(syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
		uintptr(unsafe.Pointer(limit)), 0, 0, 0))
}
