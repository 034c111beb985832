// Package signame names the signals that can end a command on this system: SIGTERM is written SIGTERM.
package signame

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Name returns the usual name of a signal, such as SIGTERM, or what package syscall calls one without.
func Name(sig syscall.Signal) string {
	if name, known := names[sig]; known {
		return "SIG" + name
	}
	return sig.String()
}

// Exists reports whether this system has the signal. On Linux that includes the ones without a name.
func Exists(sig syscall.Signal) bool {
	_, named := names[sig]
	return named || runtime.GOOS == "linux" && sig > 0 && sig <= 64
}

// stopping are the names of signals that stop a process, which then does not end.
var stopping = []string{"STOP", "TSTP", "TTIN", "TTOU"}

// Unfit returns why a signal cannot end a command, or "".
func Unfit(sig syscall.Signal) string {
	switch {
	case !Exists(sig):
		return "is no signal of this system"
	case slices.Contains(stopping, names[sig]):
		return "stops a process and does not end it"
	}
	return ""
}

// Parse returns the signal with a name or a number: SIGTERM, TERM, term and 15 are the same. The problem says why it
// cannot end a command; it is "" if it can.
func Parse(text string) (sig syscall.Signal, problem string) {
	if number, err := strconv.Atoi(text); err == nil {
		sig = syscall.Signal(number)
	}
	wanted := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	for named, name := range names {
		if name == wanted {
			sig = named
		}
	}
	return sig, Unfit(sig)
}
