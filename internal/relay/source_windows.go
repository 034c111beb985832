package relay

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// A source is the reading end of the pipe.
type source struct{ file *os.File }

func openSource() (*source, *os.File, error) {
	r, w, err := os.Pipe()
	return &source{file: r}, w, err
}

// terminalSource is not called here.
func terminalSource(file *os.File) (*source, error) { return &source{file: file}, nil }

// drain does nothing: such a pipe cannot be read without blocking.
func (r *source) drain() {}

// canDrain reports whether drain ends a read that waits.
func (r *source) canDrain() bool { return false }

// discard does nothing: no pipe is kept here.
func (r *source) discard() {}

func (r *source) close() error { return r.file.Close() }

// read waits for bytes. It returns [io.EOF] at the end, and after close.
func (r *source) read(b *buffer) (int, error) {
	n, err := r.file.Read(b.bytes())
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// brokenPipe reports whether the error is what Windows returns instead of EPIPE: ERROR_BROKEN_PIPE or ERROR_NO_DATA.
func brokenPipe(err error) bool {
	return errors.Is(err, syscall.Errno(109)) || errors.Is(err, syscall.Errno(232))
}
