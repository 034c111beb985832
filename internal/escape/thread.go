//go:build linux

package escape

import (
	"runtime"
	"syscall"
)

// ChangeThread makes a system call that changes the calling thread, and locks the goroutine to that.
func ChangeThread(number, a, b, c uintptr) error {
	runtime.LockOSThread() // never unlocked
	if _, _, errno := syscall.RawSyscall6(number, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
