package relay

import (
	"errors"
	"io"
	"os"
	"syscall"
)

const spliceNonblock = 2 // SPLICE_F_NONBLOCK: do not wait for either end, whatever its flags say

// A teePipe is a second pipe for reading pages without taking them out of the first one.
type teePipe struct{ r, w int }

func newTeePipe() (teePipe, error) {
	fds, err := pipe(bufSize)
	return teePipe{r: fds[0], w: fds[1]}, err
}

// peek waits for bytes and reads them without taking them out of the source. It returns [io.EOF] at the end.
func (t teePipe) peek(from *source, p []byte) (n int, err error) {
	failed := from.retry(func(fd int) bool {
		n, err = tee(fd, t.w, from.limit(len(p)))
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, os.NewSyscallError("tee", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, t.read(p[:n])
}

// read fills p. The bytes are in the pipe already.
func (t teePipe) read(p []byte) error {
	for len(p) > 0 {
		n, err := retryEINTR(func() (int, error) { return syscall.Read(t.r, p) })
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		p = p[n:]
	}
	return nil
}

func (t teePipe) close() {
	_ = syscall.Close(t.r) // it is empty
	_ = syscall.Close(t.w)
}

// tee references pages of one pipe in another pipe too.
func tee(from, to, limit int) (int, error) {
	return retryEINTR(func() (int, error) {
		n, _, errno := syscall.Syscall6(syscall.SYS_TEE, uintptr(from), uintptr(to), uintptr(limit), spliceNonblock, 0, 0)
		return result(n, errno)
	})
}
