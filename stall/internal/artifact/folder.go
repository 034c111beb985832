package artifact

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// The errors for something that is in the place of an artifact.
var (
	// ErrSymlink is for a symbolic link in the place of a step's folder, of [Folder] or of a file in it. [Open] and the
	// write methods of a [Dir] wrap it, wherever the link points, and do not change the link.
	ErrSymlink = errors.New("a symbolic link is in the way")
	// ErrInTheWay is for anything else in such a place: a file instead of a folder; a folder, a pipe or a device instead
	// of a file; or a file to append to that has more than one hard link. The same functions wrap it.
	ErrInTheWay = errors.New("something else is in the way")
)

const (
	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600
)

// tempPrefix is the prefix of temporary files. No other file here has it.
const tempPrefix = ".watchdog-"

func makeFolder(parent *os.Root, name string) (*os.Root, error) {
	folder, err := enterFolder(parent, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return folder, err
	}
	if err := parent.Mkdir(name, folderMode); err != nil {
		return nil, err
	}
	if err := syncFolder(parent); err != nil {
		return nil, err
	}
	return enterFolder(parent, name)
}

// enterFolder opens a subfolder that is not a symbolic link. An os.Root follows links that stay inside of it, even with
// O_NOFOLLOW, so enterFolder compares what it opened with what was there before.
func enterFolder(parent *os.Root, name string) (*os.Root, error) {
	before, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if err := checkPlace(before, name, before.IsDir(), "folder"); err != nil {
		return nil, err
	}
	folder, err := parent.OpenRoot(name + "/.") // fails for a pipe, whose opening would wait for a writer
	if err != nil {
		return nil, err
	}
	after, err := folder.Lstat(".")
	if err == nil && !os.SameFile(before, after) {
		err = fmt.Errorf("%w: %s was put in the place of another folder just now", ErrSymlink, name)
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// checkPlace checks what is in the place of a folder or a file.
func checkPlace(info fs.FileInfo, name string, isRight bool, right string) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %s; remove it", ErrSymlink, name)
	case !isRight:
		return fmt.Errorf("%w: %s is not a %s (%v); remove it", ErrInTheWay, name, right, info.Mode())
	}
	return nil
}

func checkFile(info fs.FileInfo, name string) error {
	return checkPlace(info, name, info.Mode().IsRegular(), "regular file")
}

// checkFiles checks the places of all files before one of them is needed.
func checkFiles(folder *os.Root) error {
	for _, name := range names {
		if err := cmp.Or(checkIfThere(folder, name), checkIfThere(folder, previous+name)); err != nil {
			return err
		}
	}
	return nil
}

// checkIfThere checks that nothing but a regular file is in the place of a file.
func checkIfThere(folder *os.Root, name string) error {
	info, err := folder.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkFile(info, name)
}

// removeTemporaries removes temporary files. While another process writes in the folder they may be in use, and stay.
func removeTemporaries(folder *os.Root) error {
	unlock, alone := lockExclusive(folder)
	defer unlock()
	if !alone {
		return nil
	}
	f, err := folder.Open(".")
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	var failed []error
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !strings.HasPrefix(entry.Name(), tempPrefix) {
			continue
		}
		if err := folder.Remove(entry.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
