//go:build unix

package relay

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// A source is the reading end of the pipe. It does not block, so that waiting for a silent child costs no thread. Only
// drain and close may be called outside the stream's goroutine.
type source struct {
	file     *os.File
	raw      syscall.RawConn
	terminal bool // the file is a side of a pseudo-terminal
	enlarged bool
	draining bool
	left     int // how many bytes to read while draining
}

func newSource(file *os.File) (*source, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &source{file: file, raw: raw}, nil
}

// terminalSource returns the source of a pseudo-terminal's output.
func terminalSource(file *os.File) (*source, error) {
	r, err := newSource(file)
	if err == nil {
		r.terminal = true
	}
	return r, err
}

// drain makes the bytes that are in the pipe now the last ones.
func (r *source) drain() { _ = r.file.SetReadDeadline(time.Unix(1, 0)) } // fails only on a closed file

func (r *source) close() error { return r.file.Close() }

// read waits for bytes, without the buffer, and reads them into it. It returns [io.EOF] at the end.
func (r *source) read(b *buffer) (n int, err error) {
	failed := r.retry(func(fd int) bool {
		p := b.bytes()
		n, err = retryEINTR(func() (int, error) { return syscall.Read(fd, p[:r.limit(len(p))]) })
		if errors.Is(err, syscall.EAGAIN) {
			b.release()
			return false
		}
		return true
	})
	switch {
	case failed != nil:
		return 0, failed
	case n == 0 && err == nil, r.terminal && errors.Is(err, syscall.EIO): // the other side is closed
		return 0, io.EOF
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	}
	r.consumed(n)
	return n, nil
}

// retry calls op whenever the pipe has data, until op is done. While draining it calls op once and does not wait.
func (r *source) retry(op func(fd int) (done bool)) error {
	if !r.draining {
		err := r.raw.Read(func(fd uintptr) bool { return op(int(fd)) })
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := r.raw.Control(func(fd uintptr) { r.left = r.held(int(fd)) }); err != nil {
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

// held returns how many bytes are on their way. A terminal does not tell, and passes them on as they are read.
func (r *source) held(fd int) int {
	if r.terminal {
		return pipeSize
	}
	return bytesInPipe(fd)
}

// limit returns how many of n bytes may be read.
func (r *source) limit(n int) int {
	if r.draining {
		return min(n, r.left)
	}
	return n
}

func (r *source) consumed(n int) {
	r.enlarge(n)
	if r.draining {
		r.left -= n
	}
}

// retryEINTR repeats a call that a signal interrupted. The runtime sends such signals to preempt goroutines.
func retryEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

func brokenPipe(error) bool { return false } // Unix has EPIPE only

// descriptor returns the descriptor of a file. It is valid until the file is closed.
func descriptor(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(own uintptr) { fd = int(own) })
	return fd, err
}
