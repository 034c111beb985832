package stall

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/seed62658d38/watchdog"
)

// ErrSurvivors says that processes of a command are still alive. [Run] and [Command.Wait] wrap it if they could not end
// a process, such as one of another user. The text of their error lists the process IDs, as [Result].Survivors does.
var ErrSurvivors = errors.New("processes survived")

// ErrAlsoEnd says that a command was ended, and that [Config].AlsoEnd did not end what it had running elsewhere. [Run]
// and [Command.Wait] wrap it if that could not be started, took too long or failed; [Result].AlsoEnded has the same
// error.
var ErrAlsoEnd = errors.New("what the command started elsewhere may be alive")

// Stalled is the error of [Run] and [Command.Wait] for a command that they ended because it was stuck. [errors.Is]
// finds the code of its [watchdog.Stop], such as [watchdog.CommandNoOutput].
type Stalled struct {
	// Trip says why the command was stuck.
	Trip Trip
	// Stop is why the command's run ended, as it is in the store.
	Stop *watchdog.Stop
}

// Error says which command was ended and why.
func (s *Stalled) Error() string {
	return fmt.Sprintf("step %s was ended: %s", s.Stop.RunID, s.Trip.Reason)
}

// Unwrap returns the Stop.
func (s *Stalled) Unwrap() error { return s.Stop }

// An ExitError is the error of [Run] and [Command.Wait] for a command that exited by itself and failed. It is like
// [os/exec.ExitError], and is not one, because that needs a process that was the host's child. Code that has
//
//	var exit *exec.ExitError
//
// for [errors.As] finds both in one line:
//
//	var exit interface{ ExitCode() int }
type ExitError struct {
	// Code is the exit status, or -1 if a signal ended the command.
	Code int
	// By is the signal that ended the command, or 0.
	By syscall.Signal
}

// ExitCode returns the exit status, or -1 if a signal ended the command.
func (e *ExitError) ExitCode() int { return e.Code }

// Signal returns the signal that ended the command, or 0.
func (e *ExitError) Signal() syscall.Signal { return e.By }

// Error says how the command ended.
func (e *ExitError) Error() string {
	if e.By != 0 {
		return "the command was ended by a signal: " + e.By.String()
	}
	return fmt.Sprintf("the command failed: exit status %d", e.Code)
}
