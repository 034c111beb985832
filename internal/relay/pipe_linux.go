package relay

import (
	"os"
	"syscall"
	"unsafe"
)

const setPipeSize = 1031 // F_SETPIPE_SZ, which package syscall does not have

// flood is how much has to come at once for a larger pipe to be worth what it costs, which is more than a short command's whole output does.
const flood = 32 << 10

// openSource makes the pipe, of the usual size. The child's end is not [os.Pipe]'s, which does not block: a child has to find its output as it expects it.
func openSource() (*source, *os.File, error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	child := os.NewFile(uintptr(fds[1]), "output of a child")
	if err := syscall.SetNonblock(fds[0], true); err != nil {
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
	resize(fds[0], size)
	return fds, nil
}

// resize asks for a larger pipe. A user with many gets none; a smaller one is slower, and does.
func resize(fd, size int) {
	_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), setPipeSize, uintptr(size))
}

// enlarge makes the pipe of a child that writes much as large as it can be, once.
func (r *source) enlarge(chunk int) {
	if r.large || chunk < flood {
		return
	}
	r.large = true
	_ = r.raw.Control(func(fd uintptr) { resize(int(fd), pipeSize) }) // a pipe that is closed needs none
}

// held is how many bytes are in a pipe.
func held(fd int) int {
	var n int32
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n))) // it cannot fail for a pipe
	return int(n)
}
