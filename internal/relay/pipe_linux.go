package relay

import (
	"os"
	"syscall"
	"unsafe"
)

const setPipeSize = 1031 // F_SETPIPE_SZ, which package syscall does not have

// openSource makes the pipe. The child's end is not [os.Pipe]'s, which does not block: a child has to find its output as it expects it.
func openSource() (*source, *os.File, error) {
	fds, err := pipe(pipeSize)
	if err != nil {
		return nil, nil, err
	}
	child := os.NewFile(uintptr(fds[1]), "output of a child")
	if err = syscall.SetNonblock(fds[0], true); err != nil {
		_ = child.Close() // the error that counts is the first
		_ = syscall.Close(fds[0])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	source, err := newSource(os.NewFile(uintptr(fds[0]), "output of a child"))
	return source, child, err
}

// pipe makes a pipe that no child inherits, of the size or what a user with many pipes still gets.
func pipe(size int) (fds [2]int, err error) {
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return fds, os.NewSyscallError("pipe2", err)
	}
	_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, uintptr(fds[0]), setPipeSize, uintptr(size)) // a smaller one is slower, and does
	return fds, nil
}

// held is how many bytes are in a pipe.
func held(fd int) int {
	var n int32
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n))) // it cannot fail for a pipe
	return int(n)
}
