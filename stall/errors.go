package stall

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/seed62658d38/watchdog"
)

// The errors of [Run].
var (
	// ErrSurvivors is wrapped by what it returns where a process could not be ended, such as one of another user. The error has the numbers.
	ErrSurvivors = errors.New("processes survived")
)

// Stalled is the error of a command that was ended because it was stuck. errors.Is finds the code of its [watchdog.Stop], such as [watchdog.CommandNoOutput].
type Stalled struct {
	// Trip is what was seen.
	Trip Trip
	// Stop is the stop of the command's run, as every reader of the store sees it.
	Stop *watchdog.Stop
}

// Error says which command was ended and why.
func (s *Stalled) Error() string {
	return fmt.Sprintf("step %s was ended: %s", s.Stop.RunID, s.Trip.Reason)
}

// Unwrap returns the Stop.
func (s *Stalled) Unwrap() error { return s.Stop }

// An ExitError is the error of a command that ended by itself and failed, as [os/exec.ExitError] is.
type ExitError struct {
	// Code is the exit status, -1 where a signal ended the command.
	Code int
	// Signal is that signal, 0 where none did.
	Signal syscall.Signal
}

// Error says how the command ended.
func (e *ExitError) Error() string {
	if e.Signal != 0 {
		return "the command was ended by a signal: " + e.Signal.String()
	}
	return fmt.Sprintf("the command failed: exit status %d", e.Code)
}
