package stall

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

// isTerminal reports whether a command's input is a terminal. Then the command must stay in the host's process group,
// because a terminal stops readers of other groups.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	var state syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&state)))
	return errno == 0
}
