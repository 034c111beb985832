package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
)

// An ending is how a command ended, or why it was not started.
type ending struct {
	program   string         // of the command
	result    *stall.Result  // nil for a command that was not started
	err       error          // of stall.Run
	stop      *watchdog.Stop // in that, nil if there is none
	signal    syscall.Signal
	record    *runRecord
	recordErr error // of the record
	common    *Common
	cfg       *stall.Config
}

// stopped reports whether the command was ended because it was stuck, or because another process ended the run.
func (e *ending) stopped() bool {
	return e.stop != nil || e.elsewhere() != ""
}

// elsewhere says how another process ended the run, and so the command; nothing if none did.
func (e *ending) elsewhere() string {
	var over *session.TakeoverError
	switch {
	case e.stop != nil && e.record != nil && e.stop.RunID == e.cfg.RunID: // it has no other limit of its own
		return fmt.Sprintf("%s was stopped by another process, with %s", e.name(), e.stop.Code)
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

// guardDied is what the record says of a command that failed whatever its exit status is.
const guardDied = "its guard was killed, and nobody saw how it ended"

// complete records that the command ended by itself, and how.
func (e *ending) complete(run *watchdog.Watchdog) error {
	note := e.ended()
	if !e.result.Finished && e.result.Signal == 0 {
		note = guardDied
	}
	run.Note(note)
	return handle.Of(run.Context()).CompleteCommand(e.outcome())
}

// outcome is how a command ended that nobody stopped. It has failed, too, if its guard was killed.
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
	if r.Finished && r.Signal == 0 && r.ExitCode == 0 {
		end.Outcome = record.Succeeded
	}
	return end
}

// The shortest and the longest pause between two tries to record that a run is complete. They double.
const (
	shortestEndPause = 100 * time.Millisecond
	longestEndPause  = time.Second
)

// close records how the run ended, and closes the store. It returns what could not be recorded. While the store fails
// it tries again, and says so: if nobody recorded how it ended, the next sweeper would take the run for a stalled one.
func (r *runRecord) close(e *ending) error {
	if r == nil {
		return nil
	}
	var err error
	if e.result != nil || e.stopped() {
		err = r.recordEnd(e)
	}
	if err = errors.Join(err, r.end()); err != nil {
		err = fmt.Errorf("record the end: %w", err)
	}
	return errors.Join(err, r.db.Close())
}

// end closes the run, and has its row say how it ended.
func (r *runRecord) end() error {
	err := r.run.Close()
	if err != nil || r.kept.live() {
		r.waits(err)
	}
	kept := r.kept.end()
	if err != nil { // the keeper may have had it recorded meanwhile
		err = r.run.Close()
	}
	return errors.Join(err, kept)
}

// recordEnd records the one end of the run, unless another process ended it: a stop, an interrupt, or that it is
// complete.
func (r *runRecord) recordEnd(e *ending) error {
	switch stop := e.stop; {
	case e.elsewhere() != "": // the run has ended already
		return nil
	case stop != nil:
		_, err := r.run.Cancel(watchdog.Cancellation{Reason: stop.Code, Elapsed: stop.Elapsed, Budget: stop.Budget})
		return err
	case e.interrupted():
		return r.run.Interrupt(signalName(e.signal))
	}
	return r.complete(e)
}

// complete records that the run is complete. While the store fails it tries again until twice the record timeout is
// over.
func (r *runRecord) complete(e *ending) error {
	began := time.Now()
	for tries := 0; ; tries++ {
		err := e.complete(r.run)
		switch stop := watchdog.StopOf(err, r.run.ID()); {
		case stop != nil:
			return r.correct(e, stop)
		case err == nil, errors.Is(err, watchdog.ErrEnded):
			return err
		case time.Since(began) > 2*cmp.Or(e.cfg.RecordTimeout, watchdog.DefaultRecordTimeout):
			if e.outcome().Outcome == record.Succeeded {
				err = fmt.Errorf("%w; %s records it when the store is back", err, e.common.line("complete", r.run.ID()))
			}
			return err
		}
		r.waits(err)
		time.Sleep(verdict.Doubled(shortestEndPause, longestEndPause, tries))
	}
}

// correct has the events say that the command had ended by itself when another process stopped the run.
func (r *runRecord) correct(e *ending, stop *watchdog.Stop) error {
	handle.Of(r.run.Context()).RecordFinished()
	return fmt.Errorf("%s was stopped by another process, with %s, when its command had ended by itself: "+
		"its events say so", e.name(), string(stop.Code))
}

// waits says what the end waits for, once.
func (r *runRecord) waits(err error) {
	if r.waiting {
		return
	}
	r.waiting = true
	text := fmt.Sprintf("waiting for the store to take how run %s ended", term.Plain(r.run.ID()))
	if err != nil {
		text += ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	r.note(text)
}
