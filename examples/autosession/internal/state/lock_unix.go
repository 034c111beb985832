//go:build unix

package state

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks the file for this process, or returns the process that holds the lock. It takes a record lock, because
// child processes inherit an flock: a record lock is free as soon as its process has ended.
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
