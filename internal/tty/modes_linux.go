package tty

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// Modes are how a terminal is set.
type Modes = syscall.Termios

// Is reports whether a stream of a command is a terminal.
func Is(stream any) bool {
	_, err := modesOf(stream)
	return err == nil
}

// IsOwn reports whether a stream of a command is the controlling terminal of this process.
func IsOwn(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := foregroundOf(f)
	return err == nil
}

// A Saved is a terminal as it was when a command was started.
type Saved struct {
	file       *os.File
	modes      Modes
	foreground bool // this process was in its foreground
}

// Save returns those of a command's streams that are terminals.
func Save(streams ...any) (all []Saved) {
	for _, stream := range streams {
		if modes, err := modesOf(stream); err == nil {
			f := stream.(*os.File)
			all = append(all, Saved{f, modes, inForeground(f)})
		}
	}
	return all
}

// Restore sets the terminal as it was before a command that had no time to do so. If the host is not in the terminal's
// foreground, because a person put it into the background, it does nothing. If the foreground is nobody's any more,
// because the command had it, the host takes it back.
func (s *Saved) Restore() {
	group, err := foregroundOf(s.file)
	if err == nil && group != syscall.Getpgrp() {
		gone := errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
		if !gone || !s.foreground || takeForeground(s.file) != nil {
			return
		}
	}
	if modes, err := modesOf(s.file); err == nil && modes != s.modes {
		_ = setModes(s.file, &s.modes) // the terminal may be gone
	}
}

// HasOwn reports whether this process has a controlling terminal.
func HasOwn() bool { return withOwn(func(*os.File) bool { return true }) }

// InForeground reports whether this process is in the foreground of its controlling terminal. A shell may put a program
// there only after it has started it.
func InForeground() bool { return withOwn(inForeground) }

func withOwn(ask func(*os.File) bool) bool {
	fd, err := syscall.Open(own, syscall.O_RDONLY|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), own)
	defer f.Close() //nolint:errcheck // nothing was written
	return ask(f)
}

const own = "/dev/tty"

func inForeground(f *os.File) bool {
	group, err := foregroundOf(f)
	return err == nil && group == syscall.Getpgrp()
}

func modesOf(stream any) (modes Modes, err error) {
	f, ok := stream.(*os.File)
	if !ok {
		return modes, os.ErrInvalid
	}
	err = call(f, syscall.TCGETS, unsafe.Pointer(&modes))
	return modes, err
}

// setModes drops nothing that was typed.
func setModes(f *os.File, modes *Modes) error { return call(f, syscall.TCSETS, unsafe.Pointer(modes)) }

// foregroundOf returns the process group in the foreground. It fails for a terminal that is not the process's own.
func foregroundOf(f *os.File) (int, error) {
	var group int32
	err := call(f, syscall.TIOCGPGRP, unsafe.Pointer(&group))
	return int(group), err
}

func takeForeground(f *os.File) (err error) {
	group := int32(syscall.Getpgrp())
	unstopped(func() { err = call(f, syscall.TIOCSPGRP, unsafe.Pointer(&group)) })
	return err
}

// unstopped calls do without being stopped by the terminal, as what changes a terminal from the background is. No
// other thread and no child process is any different for it.
func unstopped(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setMask, size := uintptr(2), uintptr(8)
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		setMask, size = 3, 16
	}
	var before [16 / unsafe.Sizeof(uintptr(0))]uintptr // the largest mask of all architectures
	change := func(to, from unsafe.Pointer) {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setMask, uintptr(to), uintptr(from), size, 0, 0)
	}
	change(nil, unsafe.Pointer(&before)) // cannot fail
	during := before
	during[0] |= 1 << (syscall.SIGTTOU - 1)
	change(unsafe.Pointer(&during), nil)
	defer change(unsafe.Pointer(&before), nil)
	do()
}

// call is an ioctl of a terminal.
func call(f *os.File, request uintptr, argument unsafe.Pointer) error {
	raw, err := f.SyscallConn() // not Fd, which would have the file block
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = ioctl(fd, request, argument) }); err != nil {
		return err
	}
	return failed
}

func ioctl(fd, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}
