//go:build unix && !linux

package relay

import (
	"os"
	"syscall"
)

func openSource() (*source, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	source, err := newSource(r)
	return source, w, err
}

// bytesInPipe returns the most that a pipe can hold: these systems do not tell how much is in it.
func bytesInPipe(int) int { return pipeSize }

// enlarge does nothing: these systems choose the size of a pipe.
func (r *source) enlarge(int) {}

// dup duplicates a descriptor. Children do not inherit the new one.
func dup(fd uintptr) (uintptr, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	second, err := syscall.Dup(int(fd))
	if err == nil {
		syscall.CloseOnExec(second)
	}
	return uintptr(second), err
}
