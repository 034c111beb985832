//go:build !unix

package stall

import "os"

// continued returns nothing here: a process is not stopped and continued.
func continued() (<-chan os.Signal, func()) { return nil, func() {} }
