//go:build unix

package relay

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// A source is the end of the pipe that is read. Its file does not block, so that waiting for a silent child costs no thread.
// All of it but drain and close belongs to the stream's goroutine.
type source struct {
	file     *os.File
	raw      syscall.RawConn
	large    bool // as large as it can be
	draining bool
	left     int // how much is still taken; while draining
}

func newSource(file *os.File) (*source, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &source{file: file, raw: raw}, nil
}

// drain has what is in the pipe now be the last.
func (r *source) drain() { _ = r.file.SetReadDeadline(time.Unix(1, 0)) } // it fails for a file that is closed, which is drained

// drains says whether drain ends a read that waits.
func (r *source) drains() bool { return true }

func (r *source) close() error { return r.file.Close() }

// read waits for bytes; it returns [io.EOF] when there will be none.
func (r *source) read(p []byte) (n int, err error) {
	failed := r.do(func(fd int) bool {
		n, err = uninterrupted(func() (int, error) { return syscall.Read(fd, p[:r.limit(len(p))]) })
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	r.took(n)
	return n, nil
}

// do has op try the descriptor again and again, as soon as there is something in the pipe, until op is done. While
// draining there is one try, as nobody is waited for.
func (r *source) do(op func(fd int) (done bool)) error {
	if !r.draining {
		err := r.raw.Read(func(fd uintptr) bool { return op(int(fd)) })
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := r.raw.Control(func(fd uintptr) { r.left = held(int(fd)) }); err != nil {
			return err
		}
		r.draining = true
	}
	done := false
	if r.left > 0 {
		if err := r.raw.Control(func(fd uintptr) { done = op(int(fd)) }); err != nil {
			return err
		}
	}
	if !done {
		return io.EOF
	}
	return nil
}

// limit is how many of n bytes may be taken at once.
func (r *source) limit(n int) int {
	if r.draining {
		return min(n, r.left)
	}
	return n
}

func (r *source) took(n int) {
	r.enlarge(n)
	if r.draining {
		r.left -= n
	}
}

// uninterrupted calls again what a signal interrupted: the runtime sends them to move goroutines.
func uninterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

func brokenPipe(error) bool { return false } // EPIPE says it all
