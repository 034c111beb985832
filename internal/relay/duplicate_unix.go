//go:build unix

package relay

import (
	"fmt"
	"os"
)

// duplicate opens the file a second time, without a look at whether it blocks: [os.File.Fd] would change that. Its number is not 1 or
// 2, where a closed reader would have os.File kill the host.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	failed := raw.Control(func(own uintptr) { fd, err = dup(int(own)) })
	switch {
	case failed != nil:
		return nil, fmt.Errorf("duplicate %s: %w", f.Name(), os.ErrClosed) // nothing else can fail
	case err != nil:
		return nil, fmt.Errorf("duplicate %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// descriptor is the number of a file, valid until that is closed.
func descriptor(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(own uintptr) { fd = int(own) })
	return fd, err
}
