package state

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// WriteFile puts a file in place as a whole: whoever reads it, or is killed while writing it, finds the old content
// or the new. When it returns nil the new one is on the disk. A file that has the content already is left alone.
func WriteFile(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // there is nothing to remove once it is in place
	if err := fill(temporary, content); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// fill writes the content down to the disk and closes the file.
func fill(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
