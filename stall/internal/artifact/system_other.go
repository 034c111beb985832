//go:build !unix

package artifact

import (
	"io/fs"
	"os"
)

// nonblock is no flag here, because folders hold no pipes.
const nonblock = 0

// hasHardLinks always returns false here, because a FileInfo does not count the links.
func hasHardLinks(fs.FileInfo) bool { return false }

// syncFolder does nothing here, because folders cannot be synced.
func syncFolder(*os.Root) error { return nil }
