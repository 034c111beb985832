//go:build unix && !linux

package relay

import "syscall"

// dup duplicates a descriptor. Children do not inherit the new one.
func dup(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	n, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(n)
	}
	return n, err
}
