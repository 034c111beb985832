package relay

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// A source is the end of the pipe that is read.
type source struct{ file *os.File }

func openSource() (*source, *os.File, error) {
	r, w, err := os.Pipe()
	return &source{file: r}, w, err
}

// drain does nothing: such a pipe can only be read by waiting for it.
func (r *source) drain() {}

// drains says whether drain ends a read that waits.
func (r *source) drains() bool { return false }

func (r *source) close() error { return r.file.Close() }

// read waits for bytes; it returns [io.EOF] when there will be none, and after close.
func (r *source) read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// brokenPipe knows what Windows says instead of EPIPE: ERROR_BROKEN_PIPE and ERROR_NO_DATA.
func brokenPipe(err error) bool {
	return errors.Is(err, syscall.Errno(109)) || errors.Is(err, syscall.Errno(232))
}
