package relay

import "syscall"

// dup duplicates a descriptor. The new one is at least 3, and children do not inherit it.
func dup(fd int) (int, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 3)
	return result(n, errno)
}

// result converts the results of a raw system call.
func result(n uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
