//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"syscall"
	"unsafe"
)

// An action is what a signal does, as rt_sigaction takes it. The handler comes first, on each architecture that this
// file is built for.
type action [8]uintptr

var ignored = action{1} // SIG_IGN

// stopSignals stop a process. The Go runtime does not handle them until they are asked for.
var stopSignals = [...]syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}

// stopActions are what the stopSignals do.
type stopActions [len(stopSignals)]action

// ignoreSignals keeps signals that are meant for the host from ending or stopping the guard, and returns what the
// stopSignals did before. A command inherits what a process ignores, but for the signals that the Go runtime handles:
// syscall.ForkExec sets these to their default. Those that the host ignores stay ignored.
//
// Rejected: package signal. It starts three threads for that, and waits for one of them at each signal, which takes
// more than half a millisecond of the first command.
func ignoreSignals() (before stopActions) {
	for sig := syscall.Signal(1); sig < 32; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL,
			syscall.SIGABRT, syscall.SIGTRAP, syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGPROF:
		case syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
		default:
			sigaction(sig, &ignored, nil)
		}
	}
	for i, sig := range stopSignals {
		sigaction(sig, &ignored, &before[i])
	}
	return before
}

// during runs do with these actions, which a command inherits from the guard. A stopSignal that is sent to the guard
// meanwhile stops it, as SIGSTOP does at any time.
func (before *stopActions) during(do func()) {
	for i, sig := range stopSignals {
		sigaction(sig, &before[i], nil)
	}
	do()
	for _, sig := range stopSignals {
		sigaction(sig, &ignored, nil)
	}
}

func sigaction(sig syscall.Signal, set, old *action) {
	const setSize = 8 // of a mask, in bytes
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(old)), setSize, 0, 0) // fails only for a signal that cannot be ignored
}
