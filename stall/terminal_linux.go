package stall

import (
	"io"
	"os"
	"os/exec"
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
	var modes syscall.Termios
	return terminalCall(f, syscall.TCGETS, unsafe.Pointer(&modes)) == nil
}

// A terminalModes is how a terminal was set when a command started.
type terminalModes struct {
	file  *os.File
	modes syscall.Termios
}

// saveTerminals returns the modes of the command's terminals.
func saveTerminals(cmd *exec.Cmd) (all []terminalModes) {
	for _, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		f, ok := stream.(*os.File)
		if !ok || f == nil {
			continue
		}
		t := terminalModes{file: f}
		if terminalCall(f, syscall.TCGETS, unsafe.Pointer(&t.modes)) == nil {
			all = append(all, t)
		}
	}
	return all
}

// restore sets the terminal as it was before a command that had no time to do so. If the host is not in the terminal's
// foreground, it does nothing, because the terminal would stop the host.
func (t *terminalModes) restore() {
	var modes syscall.Termios
	if terminalCall(t.file, syscall.TCGETS, unsafe.Pointer(&modes)) != nil || modes == t.modes {
		return
	}
	var foreground int32
	err := terminalCall(t.file, syscall.TIOCGPGRP, unsafe.Pointer(&foreground))
	if err == nil && int(foreground) != syscall.Getpgrp() {
		return
	}
	_ = terminalCall(t.file, syscall.TCSETS, unsafe.Pointer(&t.modes)) // the terminal may be gone
}

func terminalCall(f *os.File, request uintptr, argument unsafe.Pointer) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return err
}
