//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package artifact

import (
	"errors"
	"os"
	"syscall"
)

// lockShared locks a folder for writing a file in it, until unlock is called or the process ends. It does not wait,
// because another process must not delay a signal. A writer that gets no lock may lose its temporary file, and then
// tries again.
func lockShared(folder *os.Root) (unlock func()) {
	unlock, _ = lock(folder, syscall.LOCK_SH)
	return unlock
}

// lockExclusive locks a folder for removing temporary files, and reports whether nobody writes there. On a file system
// without locks it always reports true.
func lockExclusive(folder *os.Root) (unlock func(), alone bool) {
	unlock, err := lock(folder, syscall.LOCK_EX)
	return unlock, !errors.Is(err, syscall.EWOULDBLOCK)
}

func lock(folder *os.Root, how int) (unlock func(), err error) {
	f, err := folder.Open(".")
	if err != nil {
		return func() {}, err
	}
	return func() { _ = f.Close() }, syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
}
