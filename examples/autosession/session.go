package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/phase"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/progress"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

// A session is one process's work on a session.
type session struct {
	opts   options
	show   *progress.Display
	dir    state.Dir
	limits limits         // of the current window
	fresh  limits         // of the window that a resume would open
	kept   *state.Session // nil until there is one
	stop   *watchdog.Stop // why it is blocked, once it is
}

// run runs the session as far as possible. Its status is in s.kept; run returns an error for other failures.
func (s *session) run() (err error) {
	if s.dir, err = findState(s.opts); err != nil {
		return err
	}
	release, err := s.find()
	if err != nil {
		return err
	}
	defer release()
	if s.kept.Status == state.Complete && !s.opts.resume {
		s.reportComplete()
		return nil
	}
	return s.runGuarded()
}

// runGuarded attaches the watchdog, runs the phases under it, and then records why the run ended.
func (s *session) runGuarded() (err error) {
	store, err := s.openStore()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	listener := listenForSignals()
	defer listener.stop()

	wd, err := s.attach(store)
	if errors.Is(err, watchdog.ErrComplete) {
		return s.complete()
	}
	if err != nil {
		return err
	}
	listener.interrupt(wd, s.show)
	phaseErr := s.runPhases(wd)
	listener.stop()
	closeErr := wd.Close() // this ends the run, so that its first cause is final
	return errors.Join(s.conclude(wd, phaseErr), closeErr)
}

// runPhases runs the remaining phases until one fails or the watchdog fires. After the last one the run is complete.
func (s *session) runPhases(wd *watchdog.Watchdog) error {
	work, err := findProject(s.dir, s.kept.Project)
	if err != nil {
		return err
	}
	runner := phase.Runner{Dir: work.dir, Env: work.env, Hang: s.opts.hang, Log: s.log}
	for _, p := range s.left() {
		if _, fired := wd.Fired(); fired {
			return nil // conclude reads the stop
		}
		if err := s.runPhase(wd, runner, p); err != nil {
			return err
		}
	}
	return wd.Complete()
}

// runPhase saves the current phase and runs it in the watchdog's context. The next save records that it is completed.
func (s *session) runPhase(wd *watchdog.Watchdog, runner phase.Runner, p phase.Phase) error {
	s.kept.Phase, s.kept.Status = p.Name, state.Running
	if err := s.dir.Save(s.kept); err != nil {
		return err
	}
	begun := time.Now()
	s.reportStart(wd, p)
	defer s.show.Live(nil)
	if err := runner.Run(wd.Context(), p); err != nil {
		return err
	}
	s.kept.Completed = append(s.kept.Completed, p.Name)
	s.show.Say("%-6s done in %s", p.Name, brief(time.Since(begun)))
	return nil
}

// conclude saves and reports why the run ended: a stop, an interrupt, a failed phase, or the end of all phases.
func (s *session) conclude(wd *watchdog.Watchdog, phaseErr error) error {
	var interrupted *watchdog.Interruption
	var failed *phase.Failure
	cause := context.Cause(wd.Context())
	s.kept.ElapsedSeconds = int64(wd.Elapsed() / time.Second)
	switch stop := wd.Stop(); {
	case stop != nil:
		return s.blocked(stop)
	case errors.As(cause, &interrupted):
		return s.end(state.Interrupted, func() { s.reportInterrupted(interrupted.By) })
	case errors.As(phaseErr, &failed):
		return s.end(state.Failed, func() { s.reportFailed(failed) })
	case phaseErr != nil:
		return phaseErr
	}
	return s.complete()
}

// complete saves that the run is complete. The file does not know that yet if the process that completed the run was
// killed before it could save it.
func (s *session) complete() error {
	for _, p := range s.left() {
		s.kept.Completed = append(s.kept.Completed, p.Name)
	}
	return s.end(state.Complete, s.reportComplete)
}

// blocked saves the stop, also one that another process found.
func (s *session) blocked(stop *watchdog.Stop) error {
	s.stop, s.kept.StopReason = stop, stop.Code
	s.kept.ElapsedSeconds = int64(stop.Elapsed / time.Second)
	return s.end(state.Blocked, s.reportBlocked)
}

// end saves the status. It reports the status even if the save fails.
func (s *session) end(status state.Status, report func()) error {
	s.kept.Status, s.kept.Phase = status, ""
	if left := s.left(); len(left) > 0 {
		s.kept.Phase = left[0].Name
	}
	err := s.dir.Save(s.kept)
	report()
	return err
}

// left returns the phases that are not completed.
func (s *session) left() []phase.Phase {
	var left []phase.Phase
	for _, p := range phase.Pipeline {
		if !s.kept.Done(p.Name) {
			left = append(left, p)
		}
	}
	return left
}

func (s *session) log(phase string) string { return s.dir.Log(s.kept.ID, phase) }
