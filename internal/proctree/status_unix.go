//go:build unix

package proctree

import (
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// statusOf returns the status of a process that was waited for.
func statusOf(pid int, status syscall.WaitStatus, used *syscall.Rusage) Status {
	s := Status{
		ExitCode: status.ExitStatus(), State: newState(pid, status, used),
		User: time.Duration(used.Utime.Nano()), System: time.Duration(used.Stime.Nano()),
		MaxRSS: int64(used.Maxrss) * maxRSSUnit, //nolint:unconvert // it has 32 bits on some systems
	}
	if status.Signaled() {
		s.Signal = status.Signal()
	}
	return s
}

// A processState has the fields of an [os.ProcessState], which are the same on every Unix in Go 1.25, 1.26 and 1.27.
type processState struct {
	pid    int
	status syscall.WaitStatus
	rusage *syscall.Rusage
}

// newState returns what [os.Process.Wait] would have returned here for a process that another one waited for, or nil if
// an os.ProcessState of this Go has other fields than are known here.
//
// Package os makes one only for a child of the caller, and on Linux the command is the guard's child. What was
// rejected, and why:
//   - CLONE_PARENT, so that the command is the host's child: its orphans become those of the host's parents and not the
//     guard's, and survive.
//   - The host as the subreaper: see the package documentation.
//   - A child of the host that ends in the same way, so that no unsafe code is needed: its PID and its usage are not
//     the command's, it costs the start of a process for each failure, and it dumps its core again.
func newState(pid int, status syscall.WaitStatus, used *syscall.Rusage) *os.ProcessState {
	if !stateIsKnown() {
		return nil
	}
	state := new(os.ProcessState)
	*(*processState)(unsafe.Pointer(state)) = processState{pid, status, used}
	return state
}

var stateIsKnown = sync.OnceValue(func() bool { return isProcessState(reflect.TypeFor[os.ProcessState]()) })

// isProcessState reports whether a struct has the fields of a processState and no others, in names, types and offsets.
func isProcessState(t reflect.Type) bool {
	known := reflect.TypeFor[processState]()
	if t.Kind() != reflect.Struct || t.NumField() != known.NumField() || t.Size() != known.Size() {
		return false
	}
	for i := range t.NumField() {
		a, b := t.Field(i), known.Field(i)
		if a.Name != b.Name || a.Type != b.Type || a.Offset != b.Offset {
			return false
		}
	}
	return true
}
