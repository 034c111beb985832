//go:build unix

package state

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the file for this process, or returns the process that has it. A record lock, unlike flock, is not inherited by the
// commands that are started: it is free the moment its process is gone.
func lock(file *os.File) (pid int, err error) {
	for {
		whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
		err := unix.FcntlFlock(file.Fd(), unix.F_SETLK, &whole)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return 0, err
		}
		if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &whole); err != nil {
			return 0, err
		}
		if whole.Type != unix.F_UNLCK {
			return int(whole.Pid), nil
		}
	}
}
