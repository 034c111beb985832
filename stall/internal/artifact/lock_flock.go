//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package artifact

import (
	"errors"
	"os"
	"syscall"
)

// share marks a folder as one that a file is being written in, until release is called or the process ends. It does not wait: nothing that another process
// holds may delay a signal, and a writer that got no mark begins again.
func share(folder *os.Root) (release func()) {
	release, _ = lock(folder, syscall.LOCK_SH)
	return release
}

// claim marks a folder as one that is being tidied, and says whether nobody writes there. A file system without locks says so of none.
func claim(folder *os.Root) (release func(), alone bool) {
	release, err := lock(folder, syscall.LOCK_EX)
	return release, !errors.Is(err, syscall.EWOULDBLOCK)
}

func lock(folder *os.Root, how int) (release func(), err error) {
	f, err := folder.Open(".")
	if err != nil {
		return func() {}, err
	}
	return func() { _ = f.Close() }, syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
}
