package relay

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// splice moves pages until the end of the output. It returns [errors.ErrUnsupported], with nothing lost, if it cannot
// splice to the destination, such as /dev/null opened for appending.
func (s *Stream) splice() error {
	if s.out.isNull && s.cfg.Look != nil {
		return errors.ErrUnsupported // Look needs the bytes, and then they need to go nowhere
	}
	fd, err := descriptor(s.out.file)
	if err != nil {
		return err
	}
	wake := -1
	if s.out.wake != nil {
		if wake, err = descriptor(s.out.wake); err != nil {
			return err
		}
	}
	m := splicer{Stream: s, waiter: writeWaiter{fd, wake}}
	if s.cfg.Look != nil {
		return m.moveAllWithLook()
	}
	for {
		n, err := m.move(pipeSize)
		if err != nil {
			return ignoreEOF(err)
		}
		m.notify(n, nil)
	}
}

// A splicer moves pages from the stream's pipe to its destination.
type splicer struct {
	*Stream
	waiter writeWaiter
}

// moveAllWithLook reads from a second pipe that references the same pages, and then moves them. This is one copy less
// than writing the bytes that were read.
func (m splicer) moveAllWithLook() error {
	second, err := newTeePipe()
	if err != nil {
		return err
	}
	defer second.close()
	buffer := buffers.Get().(*[bufSize]byte)
	defer buffers.Put(buffer)
	for {
		n, err := second.peek(m.in, buffer[:])
		if err != nil {
			return ignoreEOF(err)
		}
		m.notify(n, buffer[:n])
		for n > 0 {
			moved, err := m.move(n)
			if err != nil {
				return err
			}
			n -= moved
		}
	}
}

// move moves at most limit bytes, and at least one. It waits for both ends.
func (m splicer) move(limit int) (int, error) {
	for !m.isStopped() {
		n, err := m.in.spliceTo(m.waiter.fd, limit)
		if err == nil {
			m.addPassed(n)
			return n, nil
		}
		if err := m.waitIfFull(err); err != nil {
			return 0, err
		}
	}
	return 0, errStopped
}

func (m splicer) waitIfFull(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		if stopped := m.setBlocked(false); stopped != nil {
			return stopped
		}
	}
	return m.waiter.waitIfFull(err)
}

// spliceTo waits for bytes and moves them. It returns EAGAIN if the destination is full, and [io.EOF] at the end.
func (r *source) spliceTo(fd, limit int) (n int, err error) {
	failed := r.retry(func(own int) bool {
		n, err = retryEINTR(func() (int, error) {
			n, err := syscall.Splice(own, nil, fd, nil, r.limit(limit), spliceNonblock)
			return int(n), err
		})
		return !errors.Is(err, syscall.EAGAIN) || bytesInPipe(own) > 0
	})
	switch {
	case failed != nil:
		return 0, failed
	case errors.Is(err, syscall.EINVAL):
		return 0, errors.ErrUnsupported
	case err != nil:
		return 0, os.NewSyscallError("splice", err)
	case n == 0:
		return 0, io.EOF
	}
	r.consumed(n)
	return n, nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

const spliceNonblock = 2 // SPLICE_F_NONBLOCK: do not wait for either end, whatever its flags say

// A teePipe is a second pipe for reading pages without taking them out of the first one.
type teePipe struct{ r, w int }

// newTeePipe makes a pipe that no child inherits. It is smaller than a buffer if the user has too many pipes.
func newTeePipe() (teePipe, error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return teePipe{}, os.NewSyscallError("pipe2", err)
	}
	resize(fds[0], bufSize)
	return teePipe{r: fds[0], w: fds[1]}, nil
}

// peek waits for bytes and reads them without taking them out of the source. It returns [io.EOF] at the end.
func (t teePipe) peek(from *source, p []byte) (n int, err error) {
	failed := from.retry(func(fd int) bool {
		n, err = retryEINTR(func() (int, error) {
			n, _, errno := syscall.Syscall6(syscall.SYS_TEE, uintptr(fd), uintptr(t.w), uintptr(from.limit(len(p))),
				spliceNonblock, 0, 0)
			return result(n, errno)
		})
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, os.NewSyscallError("tee", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, t.read(p[:n])
}

// read fills p. The bytes are in the pipe already.
func (t teePipe) read(p []byte) error {
	for len(p) > 0 {
		n, err := retryEINTR(func() (int, error) { return syscall.Read(t.r, p) })
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		p = p[n:]
	}
	return nil
}

func (t teePipe) close() {
	_ = syscall.Close(t.r) // it is empty
	_ = syscall.Close(t.w)
}
