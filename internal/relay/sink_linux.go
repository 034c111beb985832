package relay

import (
	"io"
	"os"
	"syscall"
)

// devNull is the device number of /dev/null.
const devNull = 1<<8 | 3

// openDiscard moves pages to /dev/null where there is one.
func openDiscard() *sink {
	file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return &sink{w: io.Discard}
	}
	out, err := examined(file)
	if err != nil {
		return &sink{w: io.Discard}
	}
	return out
}

// openFile duplicates the host's file and looks what it is.
func openFile(f *os.File) (*sink, error) {
	file, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	return examined(file)
}

func examined(file *os.File) (*sink, error) {
	out := &sink{w: file, file: file}
	if err := out.examine(); err != nil {
		_ = out.close() // the error that counts is the first
		return nil, err
	}
	return out, nil
}

func (o *sink) examine() error {
	fd, err := descriptor(o.file)
	if err != nil {
		return err
	}
	var is syscall.Stat_t
	if err := syscall.Fstat(fd, &is); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	kind := is.Mode & syscall.S_IFMT
	if kind == syscall.S_IFREG {
		return nil // it does not block
	}
	gate, wake, err := newGate(fd)
	if err != nil {
		return err
	}
	o.discards = kind == syscall.S_IFCHR && is.Rdev == devNull
	o.splices = kind == syscall.S_IFIFO || o.discards
	o.endable = kind == syscall.S_IFSOCK && isStream(fd)
	o.wake = wake
	o.w = o.writer(gate)
	return nil
}

// writer writes what is not spliced.
func (o *sink) writer(gate gate) io.Writer {
	switch {
	case o.discards:
		return io.Discard
	case o.endable:
		return patient{gate, func(p []byte) (int, error) {
			return syscall.SendmsgN(gate.fd, p, nil, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		}}
	}
	return patient{gate, func(p []byte) (int, error) { return syscall.Write(gate.fd, p) }}
}

func isStream(fd int) bool {
	kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	return err == nil && kind == syscall.SOCK_STREAM
}

// A patient writer waits at its gate when the destination is full and does not block: a socket, which is sent to without blocking, or a terminal
// that another program made non-blocking for all who have it.
type patient struct {
	gate gate
	send func(p []byte) (int, error)
}

// Write implements [io.Writer].
func (w patient) Write(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := uninterrupted(func() (int, error) { return w.send(p[written:]) })
		if err == nil {
			written += n
			continue
		}
		if err := w.gate.after(os.NewSyscallError("write", err)); err != nil {
			return written, err
		}
	}
	return written, nil
}
