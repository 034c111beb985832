//go:build !unix

package artifact

import (
	"io/fs"
	"os"
)

// noWaiting is nothing where a file's place holds no pipe.
const noWaiting = 0

// hasOtherNames says no where a file's names are not counted.
func hasOtherNames(fs.FileInfo) bool { return false }

// syncFolder does nothing where folders cannot be synced.
func syncFolder(*os.Root) error { return nil }
