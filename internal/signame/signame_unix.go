//go:build unix

package signame

import (
	"runtime"
	"syscall"
)

// Exists reports whether this system has the signal. On Linux that includes the ones without a name.
func Exists(sig syscall.Signal) bool {
	_, named := names[sig]
	return named || runtime.GOOS == "linux" && sig > 0 && sig <= 64
}

var names = map[syscall.Signal]string{
	syscall.SIGABRT: "ABRT", syscall.SIGALRM: "ALRM", syscall.SIGBUS: "BUS", syscall.SIGCHLD: "CHLD",
	syscall.SIGCONT: "CONT", syscall.SIGFPE: "FPE", syscall.SIGHUP: "HUP", syscall.SIGILL: "ILL",
	syscall.SIGINT: "INT", syscall.SIGKILL: "KILL", syscall.SIGPIPE: "PIPE", syscall.SIGPROF: "PROF",
	syscall.SIGQUIT: "QUIT", syscall.SIGSEGV: "SEGV", syscall.SIGSTOP: "STOP", syscall.SIGSYS: "SYS",
	syscall.SIGTERM: "TERM", syscall.SIGTRAP: "TRAP", syscall.SIGTSTP: "TSTP", syscall.SIGTTIN: "TTIN",
	syscall.SIGTTOU: "TTOU", syscall.SIGURG: "URG", syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2",
	syscall.SIGVTALRM: "VTALRM", syscall.SIGWINCH: "WINCH", syscall.SIGXCPU: "XCPU", syscall.SIGXFSZ: "XFSZ",
}
