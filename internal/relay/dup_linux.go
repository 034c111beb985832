package relay

import "syscall"

// dup returns another number for a descriptor, above 2 and not inherited by children.
func dup(fd int) (int, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 3)
	return result(n, errno)
}
