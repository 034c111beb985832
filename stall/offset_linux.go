package stall

import (
	"io"
	"os"
	"sync"
	"syscall"
)

// toggling is held while a flag of a file is toggled.
var toggling sync.Mutex

// sameOffset reports whether what is written to two descriptors of a regular file comes one after the other: both
// append, or they share their offset, as after 2>&1. Whether they do is seen by a flag that they would share, too, and
// that means nothing for such a file. The flag is put back.
func sameOffset(a, b *os.File) (same bool) {
	toggling.Lock()
	defer toggling.Unlock()
	one, other := flagsOf(a), flagsOf(b)
	if one < 0 || other < 0 {
		return false
	}
	if one&other&syscall.O_APPEND != 0 {
		return true
	}
	at, err := a.Seek(0, io.SeekCurrent)
	if err != nil {
		return false
	}
	if also, err := b.Seek(0, io.SeekCurrent); err != nil || at != also || one != other {
		return false
	}
	setFlags(a, one^syscall.O_NONBLOCK)
	defer setFlags(a, one)
	return flagsOf(b) == one^syscall.O_NONBLOCK
}

// flagsOf returns the status flags, or -1.
func flagsOf(f *os.File) (flags int) { return fcntl(f, syscall.F_GETFL, 0) }

func setFlags(f *os.File, flags int) { fcntl(f, syscall.F_SETFL, flags) }

// fcntl returns the result of the call, or -1.
func fcntl(f *os.File, command, argument int) (result int) {
	result = -1
	raw, err := f.SyscallConn()
	if err != nil {
		return result
	}
	_ = raw.Control(func(fd uintptr) { // fails only on a closed file
		if r, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, uintptr(command), uintptr(argument)); errno == 0 {
			result = int(r)
		}
	})
	return result
}
