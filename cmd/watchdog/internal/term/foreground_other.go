//go:build !unix

package term

import "os"

func inForeground(*os.File) bool { return false }
