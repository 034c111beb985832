//go:build unix

package state

import (
	"errors"
	"os"
)

// syncDir makes renames in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
