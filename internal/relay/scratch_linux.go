package relay

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// A scratch is a pipe that lets pages be read that stay in another.
type scratch struct{ r, w int }

func newScratch() (scratch, error) {
	fds, err := pipe(bufSize)
	return scratch{r: fds[0], w: fds[1]}, err
}

// peek waits for bytes and reads them, and leaves them in the source. It returns [io.EOF] when there will be no more.
func (c scratch) peek(from *source, p []byte) (n int, err error) {
	failed := from.do(func(fd int) bool {
		n, err = tee(fd, c.w, from.limit(len(p)))
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
	return n, c.read(p[:n])
}

// read reads all of p, which is there.
func (c scratch) read(p []byte) error {
	for len(p) > 0 {
		n, err := uninterrupted(func() (int, error) { return syscall.Read(c.r, p) })
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		p = p[n:]
	}
	return nil
}

func (c scratch) close() {
	_ = syscall.Close(c.r) // it is empty
	_ = syscall.Close(c.w)
}

// tee makes the pages that are in one pipe those of another as well.
func tee(from, to, limit int) (int, error) {
	return uninterrupted(func() (int, error) {
		n, _, errno := syscall.Syscall6(syscall.SYS_TEE, uintptr(from), uintptr(to), uintptr(limit), spliceNonblock, 0, 0)
		return result(n, errno)
	})
}
