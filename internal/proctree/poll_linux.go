//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"syscall"
	"time"
	"unsafe"
)

// pollOnce is [poll], but returns EINTR when a signal comes.
func pollOnce(fds []pollFD, timeout time.Duration) error {
	var limit *syscall.Timespec
	if timeout >= 0 {
		left := syscall.NsecToTimespec(int64(timeout))
		limit = &left
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
		uintptr(unsafe.Pointer(limit)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
