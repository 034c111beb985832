package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/stall"
)

// A runReport is the ending as JSON.
type runReport struct {
	Run          string   `json:"run"`
	Status       int      `json:"status"`
	Stopped      bool     `json:"stopped"`
	Reason       string   `json:"reason,omitempty"`
	EndedBy      string   `json:"ended_by,omitempty"`
	Fingerprints []string `json:"fingerprints,omitempty"`
	Artifacts    string   `json:"artifacts,omitempty"`
	Why          string   `json:"why,omitempty"`
	Elapsed      float64  `json:"elapsed_seconds"`

	// ResumedAfter is failed, or the code of the stop, of the run with which this one goes on in a fresh window.
	ResumedAfter watchdog.StopReason `json:"resumed_after,omitempty"`
}

// report says how the command ended, unless it did so by itself, and returns the exit status as an error.
func (p Program) report(e *ending) error {
	if e.result == nil {
		return p.reportNone(e)
	}
	lost := p.sayFailures(e)
	status := e.status(lost)
	if e.common.JSON {
		return errors.Join(json.NewEncoder(p.Stderr).Encode(e.report(status)), exitStatus(status))
	}
	if text := e.story(p.Stderr); text != "" {
		p.say(text)
	}
	return exitStatus(status)
}

// sayFailures says what did not work beside the command. It reports whether output was lost.
func (p Program) sayFailures(e *ending) (lost bool) {
	lost = outputLost(e.result.OutputErr)
	if lost {
		p.say("output was lost: " + e.result.OutputErr.Error())
	}
	for _, err := range []error{e.result.ArtifactErr, e.recordErr, e.beside()} {
		if err != nil {
			p.say(err.Error())
		}
	}
	if probes := e.result.Probes; probes.BlindFor > 0 && e.reason() != "" {
		p.say(fmt.Sprintf("the last %d of %d probes failed: %s", probes.BlindFor, probes.Count, probes.Why))
	}
	return lost
}

// outputLost reports whether output was lost, but not if its reader has gone: then nobody wants it.
func outputLost(err error) bool {
	return err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET)
}

// beside is an error that the last line and the exit status do not say.
func (e *ending) beside() error {
	if errors.Is(e.err, stall.ErrSurvivors) || errors.Is(e.err, stall.ErrAlsoEnd) || !e.stopped() && !e.interrupted() &&
		!e.result.Finished && e.result.Signal == 0 {
		return e.err
	}
	return nil
}

// status returns the exit status, which is never 0 after a stop.
func (e *ending) status(lost bool) int {
	r := e.result
	switch {
	case e.stopped() && r.Signal == syscall.SIGKILL:
		return exitSignalled + int(r.Signal)
	case e.stopped():
		return exitStopped
	case errors.Is(e.err, stall.ErrSurvivors):
		return exitError
	case e.interrupted():
		return exitSignalled + int(e.signal)
	case r.Signal != 0:
		return exitSignalled + int(r.Signal)
	case r.Finished && lost && r.ExitCode == 0, !r.Finished:
		return exitError
	}
	return r.ExitCode
}

// story is the last line, empty for a command that ended by itself.
func (e *ending) story(to *os.File) string {
	reason := e.reason()
	if reason == "" {
		return ""
	}
	text := term.Marked(to, term.Bold, reason) + ": " + e.ended()
	if why := e.why(); why != "" {
		text += "; see: " + why
	}
	return text
}

// reason says why the command was ended, nothing if it ended by itself.
func (e *ending) reason() string {
	switch {
	case e.elsewhere() != "":
		return e.elsewhere()
	case e.stopped() && e.result.Trip != nil:
		return e.result.Trip.Reason
	case e.stop != nil:
		return e.stop.Error()
	case e.interrupted():
		return fmt.Sprintf("%s was interrupted after %v by %s", e.name(), e.result.Elapsed.Round(time.Second),
			signalName(e.signal))
	}
	return ""
}

// why is the command line that says more, empty if there is nothing more.
func (e *ending) why() string {
	switch {
	case e.record != nil:
		return e.common.line("why", e.cfg.RunID)
	case e.result.Artifacts != "":
		return story.Next{Command: story.CommandLine("why", e.result.Artifacts)}.Line()
	}
	return ""
}

func (e *ending) report(status int) runReport {
	r := runReport{
		Run: e.result.RunID, Status: status, Stopped: e.stopped(), Reason: e.reason(),
		Fingerprints: e.result.Fingerprints(), Artifacts: e.result.Artifacts, Elapsed: e.result.Elapsed.Seconds(),
	}
	if e.cfg.RunID != "" {
		r.Run = e.cfg.RunID
	}
	if e.result.EndedBy != 0 {
		r.EndedBy = signame.Name(e.result.EndedBy)
	}
	if r.Reason != "" || e.record != nil {
		r.Why = e.why()
	}
	if e.record != nil && e.record.before != nil {
		r.ResumedAfter = e.record.before.End.Code
	}
	return r
}

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
	var flaw syscall.Errno
	status := e.notStarted()
	switch {
	case e.elsewhere() != "":
		return e.reason() + ", before the command started"
	case e.stop != nil && e.stop.Code == watchdog.WallClockExceeded:
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

var notExecutable = []error{
	exec.ErrDot, fs.ErrPermission,
	syscall.ENOEXEC, syscall.ENOTDIR, syscall.ELOOP, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.E2BIG,
	syscall.ETXTBSY,
}
