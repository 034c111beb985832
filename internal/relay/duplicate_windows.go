package relay

import (
	"fmt"
	"os"
	"syscall"
)

// duplicate opens the file a second time, so that the host can close its own.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return nil, os.NewSyscallError("GetCurrentProcess", err)
	}
	var handle syscall.Handle
	failed := raw.Control(func(own uintptr) {
		err = syscall.DuplicateHandle(self, syscall.Handle(own), self, &handle, 0, false, syscall.DUPLICATE_SAME_ACCESS)
	})
	switch {
	case failed != nil:
		return nil, fmt.Errorf("duplicate %s: %w", f.Name(), os.ErrClosed) // Control fails only on a closed file
	case err != nil:
		return nil, os.NewSyscallError("DuplicateHandle", err)
	}
	return os.NewFile(uintptr(handle), f.Name()), nil
}
