//go:build darwin || (linux && (386 || arm || mips || mipsle || mips64 || mips64le))

package proctree

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// Arguments of waitid, and the values of si_code that matter here.
const (
	idTypePID  = 1
	waitExited = 4
	codeExited = 1
	codeKilled = 2 // greater values are deaths by a signal too
)

// waitWithoutReaping waits until the process has exited. It does not reap it, so that its PID and its process group ID
// cannot be reused. It reports false if it cannot wait.
func waitWithoutReaping(pid int) (s Status, seen bool) {
	var info [32]int32 // a siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePID, uintptr(pid), uintptr(unsafe.Pointer(&info)),
			waitExited|waitNoWait, 0, 0)
		if errno != 0 && !errors.Is(errno, syscall.EINTR) {
			return unknown, false
		}
		if errno == 0 {
			break
		}
	}
	code, status := siginfoFields()
	s = unknown
	switch {
	case info[code] == codeExited:
		s.ExitCode = int(info[status])
	case info[code] >= codeKilled:
		s.Signal = syscall.Signal(info[status])
	}
	return s, true
}

// siginfoFields returns the indexes of si_code and si_status in a siginfo_t of 32-bit words.
func siginfoFields() (code, status int) {
	switch {
	case strings.HasPrefix(runtime.GOARCH, "mips64"):
		return 1, 6
	case strings.HasPrefix(runtime.GOARCH, "mips"):
		return 1, 5
	default:
		return 2, 5
	}
}
