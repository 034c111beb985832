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

// pipe makes a pipe that no child inherits. It has the given size, or less if the user has too many pipes.
func pipe(size int) (fds [2]int, err error) {
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return fds, os.NewSyscallError("pipe2", err)
	}
	resize(fds[0], size)
	return fds, nil
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
