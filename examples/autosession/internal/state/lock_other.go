//go:build !unix

package state

import "os"

// lock does nothing: here the user must not run one session in two processes.
func lock(*os.File) (pid int, err error) { return 0, nil }
