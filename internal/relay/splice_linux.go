package relay

import (
	"errors"
	"io"
	"os"
	"syscall"
)

const spliceNonblock = 2 // SPLICE_F_NONBLOCK: neither end is waited for, whatever its descriptor says

// splice moves until the end of the output. It returns [errors.ErrUnsupported], with nothing lost, where the destination cannot be spliced to
// after all: /dev/null opened for appending, for one.
func (s *Stream) splice() error {
	if s.out.discards && s.cfg.Look != nil {
		return errors.ErrUnsupported // what was looked at need go nowhere
	}
	fd, err := descriptor(s.out.file)
	if err != nil {
		return err
	}
	wake, err := descriptor(s.out.wake)
	if err != nil {
		return err
	}
	m := mover{Stream: s, gate: gate{fd, wake}}
	if s.cfg.Look == nil {
		return m.all()
	}
	return m.allSeen()
}

// A mover moves what is in the stream's pipe to its destination.
type mover struct {
	*Stream
	gate gate
}

// all moves what nobody looks at.
func (m mover) all() error {
	for {
		n, err := m.some(pipeSize)
		if err != nil {
			return ended(err)
		}
		m.see(n, nil)
	}
}

// allSeen reads from a second pipe with the same pages in it, and then moves them: a copy less than writing what was read.
func (m mover) allSeen() error {
	second, err := newScratch()
	if err != nil {
		return err
	}
	defer second.close()
	buffer := buffers.Get().(*[bufSize]byte)
	defer buffers.Put(buffer)
	for {
		n, err := second.peek(m.in, buffer[:])
		if err != nil {
			return ended(err)
		}
		m.see(n, buffer[:n])
		for n > 0 {
			moved, err := m.some(n)
			if err != nil {
				return err
			}
			n -= moved
		}
	}
}

// some moves at most limit bytes, and at least one. It waits for both ends.
func (m mover) some(limit int) (int, error) {
	for !m.halted() {
		n, err := m.in.spliceTo(m.gate.fd, limit)
		if err == nil {
			m.passed(n)
			return n, nil
		}
		if err := m.full(err); err != nil {
			return 0, err
		}
	}
	return 0, errStopped
}

// full waits if the error says that the destination is full, and returns any other.
func (m mover) full(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		if stopped := m.wait(false); stopped != nil {
			return stopped
		}
	}
	return m.gate.after(err)
}

// spliceTo waits for bytes and moves them. It returns EAGAIN if the destination is full, and [io.EOF] when there will be no more bytes.
func (r *source) spliceTo(fd, limit int) (n int, err error) {
	failed := r.do(func(own int) bool {
		n, err = uninterrupted(func() (int, error) {
			n, err := syscall.Splice(own, nil, fd, nil, r.limit(limit), spliceNonblock)
			return int(n), err
		})
		return !errors.Is(err, syscall.EAGAIN) || held(own) > 0
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
	r.took(n)
	return n, nil
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
