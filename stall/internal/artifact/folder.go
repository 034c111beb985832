package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// The errors of what stands in the way of an artifact.
var (
	// ErrSymlink is wrapped by what [Open] and the writes of a [Dir] return for a symbolic link where a step's folder, [Folder] or a file in it belongs, wherever
	// it points. It is left as it is.
	ErrSymlink = errors.New("a symbolic link is in the way")
	// ErrInTheWay is wrapped by what they return for anything else that does not belong there: a file for a folder, a folder, a pipe or a device for a
	// file, and a file to append to that has other names as well.
	ErrInTheWay = errors.New("something else is in the way")
)

const (
	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600
)

// tempPrefix begins the names of files that are being written, and of no others.
const tempPrefix = ".watchdog-"

// makeFolder opens a folder in another, and makes it where it is missing.
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

// enterFolder opens a folder in another, and no link. A Root follows links that stay inside it, asked for O_NOFOLLOW or not, so what was opened is compared
// with what stood there.
func enterFolder(parent *os.Root, name string) (*os.Root, error) {
	before, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if err := checkFolder(before, name); err != nil {
		return nil, err
	}
	folder, err := parent.OpenRoot(name + "/.") // which only a folder has: the opening of a pipe would wait for a writer
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

func checkFolder(info fs.FileInfo, name string) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return linked(name)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a folder (%v); remove it", ErrInTheWay, name, info.Mode())
	}
	return nil
}

func checkFile(info fs.FileInfo, name string) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return linked(name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a regular file (%v); remove it", ErrInTheWay, name, info.Mode())
	}
	return nil
}

func linked(name string) error { return fmt.Errorf("%w: %s; remove it", ErrSymlink, name) }

// checkFiles finds what is in the way of the files before one of them is needed.
func checkFiles(folder *os.Root) error {
	for _, name := range []string{EventFile, ProbeFile, TailFile, DecisionFile} {
		if err := checkPlace(folder, name); err != nil {
			return err
		}
	}
	return nil
}

// checkPlace checks that a file can be put there: it is missing or a regular file.
func checkPlace(folder *os.Root, name string) error {
	info, err := folder.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkFile(info, name)
}

// removeLeftovers removes the files that no process writes any more. While one writes they may be its own and stay.
func removeLeftovers(folder *os.Root) error {
	release, alone := claim(folder)
	defer release()
	if !alone {
		return nil
	}
	entries, err := fs.ReadDir(folder.FS(), ".")
	if err != nil {
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
