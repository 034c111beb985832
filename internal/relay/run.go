package relay

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

// buffers spare a short command, of which there can be many, the price of clearing 256 KiB.
var buffers = sync.Pool{New: func() any { return new([bufSize]byte) }}

func (s *Stream) run() {
	defer close(s.done)
	err := s.relay()
	_ = s.in.close()  // the child must not go on writing to nobody; nothing is lost with a reading end
	_ = s.out.close() // a duplicate, of which the host has the original
	s.passed(0)
	s.err = explain(err)
}

func (s *Stream) relay() error {
	if s.out.splices {
		if err := s.splice(); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return s.copy()
}

// copy reads and writes until the end of the output.
func (s *Stream) copy() error {
	buffer := buffers.Get().(*[bufSize]byte)
	defer buffers.Put(buffer)
	for {
		n, err := s.in.read(buffer[:])
		if n > 0 {
			s.see(n, buffer[:n])
			err = errors.Join(err, s.write(buffer[:n]))
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// see tells the host of n bytes; p are they where it asked for them.
func (s *Stream) see(n int, p []byte) {
	if s.cfg.Seen != nil {
		s.cfg.Seen(n)
	}
	if s.cfg.Look != nil {
		s.cfg.Look(p)
	}
}

func (s *Stream) write(p []byte) error {
	if err := s.wait(!s.out.endable); err != nil {
		return err
	}
	n, err := s.out.w.Write(p)
	s.passed(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// wait notes that the destination is waited for, unless the stream was stopped.
func (s *Stream) wait(stuck bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errStopped
	}
	s.stuck = stuck
	if s.waiting.IsZero() {
		s.waiting = time.Now()
	}
	return nil
}

// passed notes that the destination took n bytes.
func (s *Stream) passed(n int) {
	s.bytes.Add(int64(max(n, 0)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck, s.waiting = false, time.Time{}
}

func (s *Stream) halted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// explain says what an error of the destination means.
func explain(err error) error {
	switch {
	case err == nil || errors.Is(err, errStopped):
		return err
	case errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET), brokenPipe(err):
		return fmt.Errorf("pass output on: %w: %w", ErrReaderGone, err)
	}
	return fmt.Errorf("pass output on: %w", err)
}
