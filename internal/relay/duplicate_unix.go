//go:build unix

package relay

import (
	"fmt"
	"os"
)

// duplicate opens the file a second time. It does not use [os.File.Fd], which would make the file block. On Linux the
// new descriptor is not 1 or 2: os.File kills the host if a write to those finds the reader gone.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	failed := raw.Control(func(own uintptr) { fd, err = dup(int(own)) })
	switch {
	case failed != nil:
		return nil, fmt.Errorf("duplicate %s: %w", f.Name(), os.ErrClosed) // Control fails only on a closed file
	case err != nil:
		return nil, fmt.Errorf("duplicate %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// descriptor returns the descriptor of a file. It is valid until the file is closed.
func descriptor(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(own uintptr) { fd = int(own) })
	return fd, err
}
