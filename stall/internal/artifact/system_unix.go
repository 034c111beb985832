//go:build unix

package artifact

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// noWaiting has the opening of a pipe that was put in a file's place fail or return at once.
const noWaiting = syscall.O_NONBLOCK

// hasOtherNames says whether a file is in other folders, or under other names, as well.
func hasOtherNames(info fs.FileInfo) bool {
	system, known := info.Sys().(*syscall.Stat_t)
	return known && system.Nlink > 1
}

// syncFolder makes the names in a folder durable, as far as its file system can.
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
