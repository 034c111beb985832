package relay

import (
	"io"
	"os"
	"syscall"
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
	d.interruptible = kind == syscall.S_IFSOCK && isStream(fd)
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

func isStream(fd int) bool {
	kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	return err == nil && kind == syscall.SOCK_STREAM
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
