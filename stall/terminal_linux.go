package stall

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

// isTerminal reports that a command's input is a terminal: then it stays in the host's process group, because a terminal lets no other read.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	var state syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&state)))
	return errno == 0
}
