package signame

import "syscall"

// Exists reports whether this system has the signal. Windows has a break of the console, by two names, and a kill.
func Exists(sig syscall.Signal) bool {
	_, named := names[sig]
	return named
}

var names = map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL"}
