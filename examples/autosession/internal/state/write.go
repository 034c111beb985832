package state

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// WriteFile replaces a file as a whole: a reader, or a process killed in the middle, finds the old content or the new.
// The new content is on the disk when WriteFile returns nil. WriteFile does not touch a file that has this content.
func WriteFile(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // after the rename there is nothing to remove
	if err := fill(temporary, content); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// fill writes the content, syncs the file and closes it.
func fill(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
