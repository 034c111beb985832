//go:build darwin || (linux && (386 || arm || mips || mipsle || mips64 || mips64le))

package proctree

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// awaitEnd waits until the process has ended and leaves it to be waited for, so that its number, and its group's, stay its own.
func awaitEnd(pid int) (s Status, seen bool) {
	const (
		process                 = 1 // the number is of one
		exited, noWait          = 4, waitNoWait
		endedByItself, ofSignal = 1, 2
	)
	var info [32]int32
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, process, uintptr(pid), uintptr(unsafe.Pointer(&info)), exited|noWait, 0, 0)
		if errno != 0 && !errors.Is(errno, syscall.EINTR) {
			return unknown, false
		}
		if errno == 0 {
			break
		}
	}
	code, status := 2, 5 // where in info
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		code = 1
		if strings.HasPrefix(runtime.GOARCH, "mips64") {
			status = 6
		}
	}
	s = unknown
	switch {
	case info[code] == endedByItself:
		s.ExitCode = int(info[status])
	case info[code] >= ofSignal:
		s.Signal = syscall.Signal(info[status])
	}
	return s, true
}
