package relay

import (
	"os"
	"syscall"
	"unsafe"
)

const setPipeSize = 1031 // F_SETPIPE_SZ, which package syscall lacks

// enlargeAt is the size of a chunk that shows that a larger pipe is worth its cost. It is more than the whole output of
// a short command.
const enlargeAt = 32 << 10

// openSource makes a pipe of the default size. The child's end blocks, as children expect; that of [os.Pipe] does not.
func openSource() (*source, *os.File, error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	child := os.NewFile(uintptr(fds[1]), "output of a child")
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		_ = child.Close() // the error of SetNonblock is returned
		_ = syscall.Close(fds[0])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	source, err := newSource(os.NewFile(uintptr(fds[0]), "output of a child"))
	return source, child, err
}

// resize asks for a larger pipe. The system refuses if the user has too many pipes; then the smaller one is slower.
func resize(fd, size int) {
	_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), setPipeSize, uintptr(size))
}

// enlarge makes the pipe as large as possible, once, if a chunk shows that the child writes much.
func (r *source) enlarge(chunk int) {
	if r.enlarged || chunk < enlargeAt {
		return
	}
	r.enlarged = true
	_ = r.raw.Control(func(fd uintptr) { resize(int(fd), pipeSize) }) // fails only on a closed pipe
}

// bytesInPipe returns how many bytes are in a pipe.
func bytesInPipe(fd int) int {
	var n int32
	// The call cannot fail for a pipe.
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	return int(n)
}

// dup duplicates a descriptor. Children do not inherit the new one. It is not 1 or 2: [os.File] kills the host if a
// write to those finds the reader gone.
func dup(fd uintptr) (uintptr, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 3)
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}

// result converts the results of a raw system call.
func result(n uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
