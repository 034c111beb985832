package relay

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// What ppoll(2) is asked for.
const (
	pollIn  = 0x1
	pollOut = 0x4
)

type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// A gate waits for a destination to take more. The descriptor is the host's to set, and most block, so that the runtime cannot wait for it: a
// wait costs a thread.
type gate struct{ fd, wake int }

// newGate returns a gate and what to write to in order to end its waits: an eventfd.
func newGate(fd int) (gate, *os.File, error) {
	wake, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return gate{}, nil, os.NewSyscallError("eventfd2", errno)
	}
	return gate{fd, int(wake)}, os.NewFile(wake, "wake"), nil
}

// wait returns when the destination takes something or has an error, and errStopped when it is not to be waited for any more.
func (g gate) wait() error {
	fds := [...]pollFD{{fd: int32(g.fd), events: pollOut}, {fd: int32(g.wake), events: pollIn}}
	_, err := uninterrupted(func() (int, error) {
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

// after waits if the error says that the destination is full, and returns any other.
func (g gate) after(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		return g.wait()
	}
	return err
}

// result is what a raw system call returned, as package syscall puts it.
func result(n uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
