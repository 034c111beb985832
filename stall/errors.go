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

// An ended is the error of a command that was ended: why it was, and, behind that, what package exec would have said.
type ended struct {
	error
	exit error
}

// Unwrap returns both.
func (e *ended) Unwrap() []error { return []error{e.error, e.exit} }

// An ExitError is the error of [Run] and [Command.Wait] in place of an [os/exec.ExitError] where there is no
// [os.ProcessState]: on a Unix other than Linux if somebody else waited for the command, and on Linux with a future Go
// in which an os.ProcessState has other fields. One variable for [errors.As] finds both:
//
//	var exit interface{ ExitCode() int }
type ExitError struct {
	// Code is the exit status, or -1 if a signal ended the command or if it is unknown.
	Code int
	// By is the signal that ended the command, or 0.
	By syscall.Signal
}

// ExitCode returns Code.
func (e *ExitError) ExitCode() int { return e.Code }

// Error says how the command ended, in the words of package os.
func (e *ExitError) Error() string {
	if e.By != 0 {
		return "signal: " + e.By.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}
