//go:build unix

package artifact

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// nonblock makes opening a pipe in the place of a file fail or return at once.
const nonblock = syscall.O_NONBLOCK

// hasHardLinks reports whether a file has more than one name.
func hasHardLinks(info fs.FileInfo) bool {
	system, known := info.Sys().(*syscall.Stat_t)
	return known && system.Nlink > 1
}

// syncFolder makes the names in a folder durable, if its file system can do that.
func syncFolder(folder *os.Root) error {
	f, err := folder.Open(".")
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
