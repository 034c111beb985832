//go:build unix

package term

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// inForeground reports whether a terminal is for this program's process group: a shell that has put it into the
// background has the terminal itself.
func inForeground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}
