package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"syscall"

	"github.com/seed62658d38/watchdog"
)

// reportNone says why the command was not started, and returns the exit status as an error.
func (p Program) reportNone(e *ending) error {
	if e.recordErr != nil {
		p.say(e.recordErr.Error())
	}
	status := e.notStarted()
	if e.common.JSON {
		r := runReport{Run: e.cfg.RunID, Status: status, Stopped: e.stopped(), Reason: e.whyNone()}
		return errors.Join(json.NewEncoder(p.Stderr).Encode(r), exitStatus(status))
	}
	p.say(e.whyNone())
	return exitStatus(status)
}

// notStarted returns the exit status for a command that was not started.
func (e *ending) notStarted() int {
	var ours *fs.PathError // from this program's own files: for a command stall.Run returns no path
	var outside signalError
	switch {
	case errors.As(e.err, &outside):
		return exitSignalled + int(outside.signal)
	case e.stopped():
		return exitStopped
	case errors.As(e.err, &ours):
		return exitError
	case errors.Is(e.err, exec.ErrNotFound), errors.Is(e.err, fs.ErrNotExist):
		return exitNotFound
	case slices.ContainsFunc(notExecutable, func(flaw error) bool { return errors.Is(e.err, flaw) }):
		return exitNotExecutable
	}
	return exitError
}

// whyNone says why there was no command. stall.Run does not name it: its errors are recorded.
func (e *ending) whyNone() string {
	var stop *watchdog.Stop
	var flaw syscall.Errno
	status := e.notStarted()
	switch {
	case e.overspent():
		return spentText(e.meter.overspent()) + ", before the command started"
	case e.elsewhere() != "":
		return e.elsewhere() + ", before the command started"
	case errors.As(e.err, &stop) && stop.Code == watchdog.WallClockExceeded:
		return fmt.Sprintf("the wall clock of %v was used up before the command started", e.cfg.WallClock)
	case status != exitNotFound && status != exitNotExecutable:
		return e.err.Error()
	case errors.Is(e.err, exec.ErrNotFound):
		return fmt.Sprintf("cannot run %q: %v", e.program, exec.ErrNotFound)
	case errors.As(e.err, &flaw):
		return fmt.Sprintf("cannot run %q: %v", e.program, flaw)
	}
	return fmt.Sprintf("cannot run %q: %v", e.program, e.err)
}

// notExecutable are the errors of a command that exists.
var notExecutable = []error{
	exec.ErrDot, fs.ErrPermission,
	syscall.ENOEXEC, syscall.ENOTDIR, syscall.ELOOP, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.E2BIG,
	syscall.ETXTBSY,
}
