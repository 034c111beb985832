package relay

import (
	"errors"
	"io"
	"os"
	"syscall"
	"unsafe"
)

// devNull is the device number of /dev/null.
const devNull = 1<<8 | 3

// openDiscard opens /dev/null if possible, because pages can be spliced to it.
func openDiscard() *destination {
	// Package os would try to add it to the runtime's poller, which takes four more system calls.
	fd, err := syscall.Open(os.DevNull, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &destination{w: io.Discard}
	}
	out, err := newFileDestination(os.NewFile(uintptr(fd), os.DevNull))
	if err != nil {
		return &destination{w: io.Discard}
	}
	return out
}

// openFile duplicates the host's file and examines it.
func openFile(f *os.File) (*destination, error) {
	file, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	return newFileDestination(file)
}

func newFileDestination(file *os.File) (*destination, error) {
	out := &destination{w: file, file: file}
	if err := out.examine(); err != nil {
		_ = out.close() // the error of examine is returned
		return nil, err
	}
	return out, nil
}

func (d *destination) examine() error {
	fd, err := descriptor(d.file)
	if err != nil {
		return err
	}
	var is syscall.Stat_t
	if err := syscall.Fstat(fd, &is); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	kind := is.Mode & syscall.S_IFMT
	if kind == syscall.S_IFREG {
		return nil // a regular file does not block
	}
	if kind == syscall.S_IFCHR && is.Rdev == devNull {
		d.isNull, d.canSplice, d.w = true, true, io.Discard
		return nil // it is never full, so nothing waits for it
	}
	waiter, wake, err := newWriteWaiter(fd)
	if err != nil {
		return err
	}
	d.canSplice = kind == syscall.S_IFIFO
	if kind == syscall.S_IFSOCK {
		of, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
		d.interruptible = err == nil && of == syscall.SOCK_STREAM
	}
	d.wake = wake
	d.w = d.writer(waiter)
	return nil
}

// writer returns the writer to use if the bytes are not spliced.
func (d *destination) writer(waiter writeWaiter) io.Writer {
	if d.interruptible {
		return waitingWriter{waiter, func(p []byte) (int, error) {
			return syscall.SendmsgN(waiter.fd, p, nil, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		}}
	}
	return waitingWriter{waiter, func(p []byte) (int, error) { return syscall.Write(waiter.fd, p) }}
}

// A waitingWriter waits if the destination is full and does not block. Such a destination is a socket, which is sent to
// without blocking, or a terminal that another program made non-blocking for everyone.
type waitingWriter struct {
	waiter writeWaiter
	send   func(p []byte) (int, error)
}

// Write implements [io.Writer].
func (w waitingWriter) Write(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := retryEINTR(func() (int, error) { return w.send(p[written:]) })
		if err == nil {
			written += n
			continue
		}
		if err := w.waiter.waitIfFull(os.NewSyscallError("write", err)); err != nil {
			return written, err
		}
	}
	return written, nil
}

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

func (w writeWaiter) waitIfFull(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		return w.wait()
	}
	return err
}
