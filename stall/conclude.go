package stall

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/record"
)

// conclude ends what is left of the command and fills in the result.
func (s *sentinel) conclude(ctx context.Context, cause error) {
	if s.stopProbes != nil {
		s.stopProbes()
	}
	switch {
	case cause == nil:
		s.result.Finished = s.exitedByItself()
		s.endLeftBehind()
		s.io.drain(func() { s.holdAround(true) }, ctx.Done(), s.run.Context().Done())
	case isStalled(cause):
		s.end(s.result.Trip.Action)
	default:
		var stop *watchdog.Stop
		if errors.As(cause, &stop) {
			s.noteWallClock(stop)
		}
		s.end(ActionInterrupt)
	}
	s.probes.Wait()
	s.io.fillPipes()
	s.result.OutputErr = s.io.close(drainBound)
	if s.tree.Status().Signal != 0 || len(s.result.Sent) > 0 {
		for i := range s.terminals {
			s.terminals[i].Restore()
		}
	}
	s.recordStatus()
	s.recordFinished()
	s.alsoEnd(ctx)
	s.recordSurvivors()
	s.result.Incomplete = s.cfg.AsIncomplete && !s.result.Finished && isStalled(cause)
	s.report.complete(s)
}

func (s *sentinel) recordStatus() {
	status := s.tree.Status()
	s.result.ExitCode, s.result.Signal = status.ExitCode, status.Signal
	s.result.User, s.result.System, s.result.MaxRSS = status.User, status.System, status.MaxRSS
	s.result.Elapsed = time.Since(s.began)
	if !isClosed(s.tree.Gone()) {
		s.result.Survivors, _ = s.tree.Survivors()
	}
}

func (s *sentinel) survived() bool { return !isClosed(s.tree.Gone()) || len(s.result.Survivors) > 0 }

// recordSurvivors puts on record what could not be ended: the cancel was recorded before the first signal, and cannot
// say it.
func (s *sentinel) recordSurvivors() {
	run := handle.Of(s.run.Context())
	if !s.survived() || run.Settings().Disabled {
		return
	}
	overrun := record.Overrun{
		Key: s.cfg.Step, Layer: record.LayerCommand, ElapsedSeconds: record.ExactSeconds(s.result.Elapsed), Abandoned: true,
	}
	overrun.SetSurvivors(s.result.Survivors)
	run.RecordOverrun(overrun)
}

// verdict returns the error of [Command.Wait]. For a command that failed by itself it is the exit error and no error
// around it, because hosts assert its type.
func (s *sentinel) verdict(cause error) error {
	var exit error
	if isClosed(s.tree.Exited()) {
		exit = exitError(s.tree.Status())
	}
	switch {
	case s.tree.Err() != nil:
		cause = errors.Join(cause, s.tree.Err())
	case s.result.Finished, cause == nil: // by itself, or by the host
		cause = exit
	case s.result.Incomplete:
		cause = nil
	case exit != nil:
		cause = &ended{cause, exit}
	}
	if also := s.result.AlsoEnded; also != nil && also.Err != nil {
		cause = errors.Join(cause, also.Err)
	}
	if s.survived() {
		cause = errors.Join(cause, survivorsError(s.result.Survivors))
	}
	return cause
}

// survivorsError says which processes could not be ended. On an overloaded machine that is not known in time.
func survivorsError(alive []int) error {
	if len(alive) == 0 {
		return fmt.Errorf("%w: which ones was not known in time; look for processes of the command, and end them by hand",
			ErrSurvivors)
	}
	return fmt.Errorf("%w: end the processes %v by hand", ErrSurvivors, alive)
}

// exitError returns what package exec would say about how a command ended: nil for status 0.
func exitError(status proctree.Status) error {
	switch {
	case status.ExitCode == 0:
		return nil
	case status.State == nil:
		return &ExitError{Code: status.ExitCode, By: status.Signal}
	}
	return &exec.ExitError{ProcessState: status.State}
}

func isStalled(err error) bool {
	var stalled *Stalled
	return errors.As(err, &stalled)
}

// close releases what open opened, whether or not the command was started.
func (s *sentinel) close() error {
	s.holdAround(false)
	var err error
	if s.run != nil {
		err = s.run.Close()
	}
	err = errors.Join(err, s.flight.Close())
	if s.observed != nil {
		s.observed()
	}
	if s.tree == nil && s.io != nil {
		err = errors.Join(err, s.io.close(0))
	}
	s.report.close()
	return err
}
