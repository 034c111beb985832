package relay

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// Events of ppoll(2).
const (
	pollIn  = 0x1
	pollOut = 0x4
)

type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// A writeWaiter waits until a destination can take more. Each wait costs a thread: the host's descriptor may block, so
// the runtime's poller cannot be used, and its flags must not be changed.
type writeWaiter struct{ fd, wake int }

// newWriteWaiter returns a writeWaiter and its eventfd. A write to the eventfd ends all waits.
func newWriteWaiter(fd int) (writeWaiter, *os.File, error) {
	wake, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return writeWaiter{}, nil, os.NewSyscallError("eventfd2", errno)
	}
	return writeWaiter{fd, int(wake)}, os.NewFile(wake, "wake"), nil
}

// wait returns when the destination can be written to or has an error. It returns errStopped after a write to the
// eventfd.
func (w writeWaiter) wait() error {
	fds := [...]pollFD{{fd: int32(w.fd), events: pollOut}, {fd: int32(w.wake), events: pollIn}}
	_, err := retryEINTR(func() (int, error) {
		n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), uintptr(len(fds)), 0, 0, 0, 0)
		return result(n, errno)
	})
	switch {
	case err != nil:
		return os.NewSyscallError("ppoll", err)
	case fds[1].revents != 0:
		return errStopped
	}
	return nil
}

// waitIfFull waits if the error says that the destination is full. It returns any other error.
func (w writeWaiter) waitIfFull(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		return w.wait()
	}
	return err
}
