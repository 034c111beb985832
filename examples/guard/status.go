package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// The exit statuses of the guard itself.
const (
	exitStuck         = 124
	exitError         = 125
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128
)

// printOutcome prints the outcome of a command that was started and returns the exit status.
func printOutcome(stderr io.Writer, result *stall.Result, err error) int {
	if result.ArtifactErr != nil {
		say(stderr, result.ArtifactErr.Error())
	}
	lost := outputLost(stderr, result)
	if p := result.Probes; p.BlindFor > 0 {
		say(stderr, fmt.Sprintf("the last %d of %d probes failed: %s", p.BlindFor, p.Count, p.Why))
	}
	var stalled *stall.Stalled
	var stop *watchdog.Stop
	var outside signalError
	switch {
	case errors.Is(err, stall.ErrSurvivors):
		return printError(stderr, err)
	case errors.As(err, &stalled):
		say(stderr, stalled.Trip.Reason+": "+outcome(result))
		return exitStuck
	case errors.As(err, &stop):
		say(stderr, fmt.Sprintf("the budget of %v is exhausted: %s", stop.Budget, outcome(result)))
		return exitStuck
	case errors.As(err, &outside):
		say(stderr, outside.Error()+": "+outcome(result))
		return exitSignalled + int(outside.signal)
	case result.Signal != 0:
		return exitSignalled + int(result.Signal)
	case result.Finished:
		return finished(result, lost)
	default:
		return printError(stderr, err)
	}
}

// finished returns the exit status for a command that exited by itself.
func finished(result *stall.Result, lost bool) int {
	if lost && result.ExitCode == 0 {
		return exitError
	}
	return result.ExitCode
}

// outputLost reports whether output was lost, and says so, but not if its reader has gone: then nobody wants it.
func outputLost(stderr io.Writer, result *stall.Result) bool {
	err := result.OutputErr
	if err == nil || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return false
	}
	say(stderr, "output was lost: "+err.Error())
	return true
}

// outcome describes how the command ended, why, and where the artifacts are.
func outcome(result *stall.Result) string {
	text := "the command was ended by " + signalName(result.EndedBy)
	if result.Trip != nil && len(result.Trip.Fingerprints) > 0 {
		text += " [" + strings.Join(result.Trip.Fingerprints, " ") + "]"
	}
	if result.Artifacts != "" {
		text += ", see " + result.Artifacts
	}
	return text
}

// notStarted prints why the command was not started and returns the exit status.
func notStarted(stderr io.Writer, err error) int {
	var ours *fs.PathError // from the guard's own files: for a command stall.Run returns no path
	status := printError(stderr, err)
	switch {
	case errors.As(err, &ours):
		return status
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	case slices.ContainsFunc(notExecutable, func(flaw error) bool { return errors.Is(err, flaw) }):
		return exitNotExecutable
	default:
		return status
	}
}

// notExecutable are the errors of a command that exists.
var notExecutable = []error{
	exec.ErrDot, fs.ErrPermission,
	syscall.ENOEXEC, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.E2BIG, syscall.ETXTBSY,
}

// say prints one line of the guard; joined errors stay on it.
func say(stderr io.Writer, text string) {
	_, _ = fmt.Fprintln(stderr, "guard: "+strings.ReplaceAll(text, "\n", "; "))
}
