package relay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

func (s *Stream) run() {
	if s.runToEnd() {
		s.in.discard()
		_ = s.in.close() // as in runToEnd
	}
}

// runToEnd relays until the end. It reports whether the pipe is to be kept open.
func (s *Stream) runToEnd() (kept bool) {
	defer s.announce()
	err := s.relay()
	kept = s.isKept() && (err == nil || errors.Is(err, errStopped))
	if !kept {
		_ = s.in.close() // so that the child does not write on; a reading end has nothing to flush
	}
	_ = s.out.close() // a duplicate of the host's file
	s.addPassed(0)
	s.err = explain(err)
	return kept
}

func (s *Stream) announce() {
	if s.cfg.End != nil {
		s.cfg.End()
	}
	close(s.done)
}

func (s *Stream) isKept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

func (s *Stream) relay() error {
	if s.out.canSplice {
		if err := s.splice(); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return s.copy()
}

func (s *Stream) copy() error {
	var b buffer
	defer b.release()
	for {
		n, err := s.in.read(&b)
		if n > 0 {
			p := b.bytes()[:n]
			s.notify(n, p)
			err = errors.Join(err, s.write(p))
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// notify reports n bytes to the host; p holds them if Look is set.
func (s *Stream) notify(n int, p []byte) {
	if s.cfg.Seen != nil {
		s.cfg.Seen(n)
	}
	if s.cfg.Look != nil {
		s.cfg.Look(p)
	}
}

func (s *Stream) write(p []byte) error {
	if err := s.setBlocked(!s.out.interruptible); err != nil {
		return err
	}
	n, err := s.out.w.Write(p)
	s.addPassed(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// setBlocked records that the stream waits for the destination. It returns errStopped if the stream was stopped.
func (s *Stream) setBlocked(stuck bool) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return errStopped
	}
	s.stuck = stuck
	if s.blockedSince.IsZero() {
		s.blockedSince = time.Now()
	}
	s.mu.Unlock()
	if s.cfg.Full != nil {
		s.cfg.Full()
	}
	return nil
}

// addPassed records that the destination took n bytes.
func (s *Stream) addPassed(n int) {
	s.bytes.Add(int64(max(n, 0)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck, s.blockedSince = false, time.Time{}
}

func (s *Stream) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// explain wraps ErrReaderGone if the error says that the reader is gone.
func explain(err error) error {
	switch {
	case err == nil || errors.Is(err, errStopped):
		return err
	case errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET),
		brokenPipe(err):
		return fmt.Errorf("pass output on: %w: %w", ErrReaderGone, err)
	}
	return fmt.Errorf("pass output on: %w", err)
}

// Sizes in bytes.
const (
	pipeSize = 1 << 20
	bufSize  = 256 << 10
)

// buffers saves short commands, of which there can be many, the cost of clearing 256 KiB.
var buffers = sync.Pool{New: func() any { return new([bufSize]byte) }}

// A buffer is one of buffers, from the first use until its release. A stream of a silent child has none.
type buffer struct{ held *[bufSize]byte }

func (b *buffer) bytes() []byte {
	if b.held == nil {
		b.held = buffers.Get().(*[bufSize]byte)
	}
	return b.held[:]
}

func (b *buffer) release() {
	if b.held != nil {
		buffers.Put(b.held)
		b.held = nil
	}
}

// discard reads and drops what comes until every writer has closed the pipe.
func (r *source) discard() {
	var buffer [4096]byte
	for {
		_ = r.file.SetReadDeadline(time.Time{}) // drain set one, and may again; fails only on a closed file
		_, err := r.file.Read(buffer[:])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}
