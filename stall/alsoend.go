package stall

import (
	"os/exec"
	"time"
)

// DefaultAlsoEndTimeout is the default of [AlsoEnd].Timeout.
const DefaultAlsoEndTimeout = 10 * time.Second

// An AlsoEnd is a command that ends what the guarded command has running elsewhere. What a daemon starts on its behalf
// is not one of its descendants, and no signal of [Run] reaches it: the processes of docker exec, of a pod, of ssh, of
// systemd-run, or of a server behind a socket.
//
// Run executes it once, after it has ended the command and all that descends from it: after a trip, the end of ctx or
// of the run around the command, a wall clock, or a [Command.Kill]. So a client mostly had its grace to end its work
// itself, and AlsoEnd should succeed if there is nothing left to end. Run also executes it if processes survived, or if
// it lost sight of the command. It belongs to the ending and not to the watching: [Config].Disabled does not switch it
// off.
//
// Run does not execute it for a command that exited by itself or was never started. If the host dies, by SIGKILL or
// otherwise, nobody does. Work that a daemon begins only after AlsoEnd has looked is not ended.
//
// It is a process tree of its own, of which nothing is left when Run returns. Its standard input is empty. Its output
// is dropped, and like its arguments and its environment it is recorded nowhere.
type AlsoEnd struct {
	// Command is the program and its arguments. No shell is involved. It runs in the guarded command's folder and
	// environment, so that a token in that can name what to end. A program that is not in the host's PATH is an error
	// before the guarded command starts. On Linux it may do what the host may at that moment, and cannot be started if
	// that is more than what the thread that started the command could.
	Command []string
	// Timeout is how long it may take; then it is ended with SIGKILL. Zero means [DefaultAlsoEndTimeout].
	Timeout time.Duration
}

// An AlsoEnded says what came of an [AlsoEnd].
type AlsoEnded struct {
	// ExitCode is its exit status, or -1 if it was not started, took too long or was ended by a signal.
	ExitCode int
	// Failed is why it may not have done its work: "start" if it could not be started, "timeout", or "exit" if it did
	// not exit with status 0. It is empty if it did.
	Failed string
	// Elapsed is how long it took.
	Elapsed time.Duration
	// Err is nil if it exited with status 0. Else it wraps [ErrAlsoEnd], and nothing that could be taken for an error of
	// the guarded command.
	Err error
}

func (a *AlsoEnd) check() error {
	switch {
	case a == nil:
		return nil
	case len(a.Command) == 0 || a.Command[0] == "":
		return invalid("AlsoEnd.Command is empty; set it to the program that ends the rest and its arguments")
	case a.Timeout < 0:
		return invalid("AlsoEnd.Timeout is %v; use a positive duration, or 0 for %v", a.Timeout, DefaultAlsoEndTimeout)
	}
	// Later would be too late: it is needed when something is stuck already.
	if err := exec.Command(a.Command[0]).Err; err != nil { //nolint:noctx // it is only looked up
		return invalid("AlsoEnd.Command has a program that cannot be started: %v; install it, or write its path",
			withoutName(err))
	}
	return nil
}
