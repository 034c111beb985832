package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
)

// An ending is how a command ended, or why it was not started.
type ending struct {
	program   string        // of the command
	result    *stall.Result // nil for a command that was not started
	err       error         // of stall.Run
	signal    syscall.Signal
	record    *runRecord
	recordErr error // of the record or the meter
	meter     *meter
	common    *Common
	cfg       *stall.Config
}

// stopped reports whether the command was ended because it was stuck, or because another process ended the run.
func (e *ending) stopped() bool {
	var stop *watchdog.Stop
	return errors.As(e.err, &stop) || e.overspent() || e.elsewhere() != ""
}

// elsewhere says how another process ended the run, and so the command; nothing if none did.
func (e *ending) elsewhere() string {
	var stop *watchdog.Stop
	var over *session.TakeoverError
	switch {
	case e.overspent():
		return ""
	case errors.As(e.err, &stop) && e.record.stored() && stop.RunID == e.cfg.RunID: // it has no other limit of its own
		return fmt.Sprintf("%s was stopped by another process, with %s", e.name(), stop.Code)
	case errors.As(e.err, &over):
		return over.Error()
	case errors.Is(e.err, watchdog.ErrComplete):
		return e.name() + " was recorded as complete by another process"
	}
	return ""
}

// interrupted reports whether a signal to this program ended the command, or one of a terminal to both.
func (e *ending) interrupted() bool {
	var outside signalError
	return errors.As(e.err, &outside) || e.signal != 0 && !e.stopped() && e.result.Signal == e.signal
}

// overspent reports whether the run was stopped because it may spend no more.
func (e *ending) overspent() bool { return e.meter.overspent() != nil }

// endedByItself reports whether nobody ended the command.
func (e *ending) endedByItself() bool {
	return e.result != nil && e.result.Finished && !e.stopped() && !e.interrupted()
}

// unmetered reports whether the command ended well, and nothing of it was counted: that is an error of this program.
func (e *ending) unmetered() bool {
	return e.endedByItself() && e.result.ExitCode == 0 && e.meter.noCall(e.result) != ""
}

// name names the run if it has a name, or else the command.
func (e *ending) name() string {
	switch {
	case e.cfg.RunID != "":
		return "run " + e.cfg.RunID
	case e.cfg.Step != defaultStep:
		return "step " + e.cfg.Step
	}
	return "the command"
}

// ended says how the command ended.
func (e *ending) ended() string {
	switch r := e.result; {
	case r.EndedBy != 0:
		return "ended by " + signame.Name(r.EndedBy)
	case r.Signal != 0:
		return "ended by " + signalName(r.Signal)
	case !r.Finished:
		return "not ended"
	default:
		return fmt.Sprintf("ended with status %d", r.ExitCode)
	}
}

// What the record says of a command that failed whatever its exit status is.
const (
	guardDied  = "its guard was killed, and nobody saw how it ended"
	allRefused = "none of its calls of models was answered, and %d were refused"
)

// complete records that the command ended by itself, and how.
func (e *ending) complete(run *watchdog.Watchdog) error {
	note := e.ended()
	n := e.meter.refusedAll()
	switch {
	case !e.result.Finished && e.result.Signal == 0:
		note = guardDied
	case n > 0:
		note += ", and " + fmt.Sprintf(allRefused, n)
	case e.meter.noCall(e.result) != "":
		note += ", and " + noCallNote
	}
	run.Note(note)
	return handle.Of(run.Context()).CompleteCommand(e.outcome())
}

// outcome is how a command ended that nobody stopped. It has failed, too, if its guard was killed, or if every call of
// a model that it made was refused.
func (e *ending) outcome() record.CommandEnd {
	r := e.result
	end := record.CommandEnd{Outcome: record.Failed}
	switch {
	case r.Signal != 0:
		end.Signal = signalName(r.Signal)
	case r.Finished:
		status := record.Count(r.ExitCode)
		end.ExitStatus = &status
	}
	if r.Finished && r.Signal == 0 && r.ExitCode == 0 && e.meter.refusedAll() == 0 {
		end.Outcome = record.Succeeded
	}
	return end
}

// refusedAll returns how many calls were refused, if none was answered.
func (m *meter) refusedAll() int64 {
	if m == nil || m.proxy.Answered() > 0 {
		return 0
	}
	n := int64(0)
	for _, r := range m.proxy.Refused() {
		n += r.Count
	}
	return n
}
