package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

// A session is one process's work on a session.
type session struct {
	opts   options
	out    *lines
	dir    state.Dir
	limits limits         // of the current window
	fresh  limits         // of the window that a resume would open
	kept   *state.Session // nil until there is one
	stop   *watchdog.Stop // why it is blocked, once it is
}

// run runs the session as far as possible. Its status is in s.kept; run returns an error for other failures.
func (s *session) run() (err error) {
	release, err := s.find()
	if err != nil {
		return err
	}
	defer release()
	if s.kept.Status == state.Complete && !s.opts.resume {
		s.reportComplete()
		return nil
	}
	store, err := openStore(s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return s.runGuarded(store)
}

// runGuarded attaches the watchdog, runs the phases under it, and then records why the run ended. It takes signals from
// its start on, also before there is a watchdog.
func (s *session) runGuarded(store watchdog.EventStore) error {
	received := make(chan os.Signal, 1)
	for name := range signals {
		if !signal.Ignored(name) { // as with nohup
			signal.Notify(received, name)
		}
	}
	defer signal.Stop(received)

	wd, err := s.attach(store)
	if errors.Is(err, watchdog.ErrComplete) {
		return s.complete()
	}
	if err != nil {
		return err
	}
	stopListening := s.interruptAt(received, wd)
	phaseErr := s.runPhases(wd)
	stopListening()
	closeErr := wd.Close() // this ends the run, so that its first cause is final
	return errors.Join(s.conclude(wd, phaseErr), closeErr)
}

// signals are the signals that end a session, and their names in its events.
var signals = map[os.Signal]string{os.Interrupt: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"}

// interruptAt interrupts the run at the first signal; a second one kills the process. Stop waits until the interrupt is
// recorded.
func (s *session) interruptAt(received chan os.Signal, wd *watchdog.Watchdog) (stop func()) {
	var waiting sync.WaitGroup
	waiting.Go(func() {
		got, came := <-received
		signal.Stop(received)
		if !came {
			return
		}
		if err := wd.Interrupt(signals[got]); err != nil && !errors.Is(err, watchdog.ErrEnded) {
			s.say("%v", err)
		}
	})
	return func() {
		signal.Stop(received)
		close(received)
		waiting.Wait()
	}
}

// runPhases runs the remaining phases until one fails or the watchdog fires. After the last one the run is complete.
func (s *session) runPhases(wd *watchdog.Watchdog) error {
	work, err := s.findProject()
	if err != nil {
		return err
	}
	for _, p := range s.left() {
		if _, fired := wd.Fired(); fired {
			return nil // conclude reads the stop
		}
		if err := s.runPhase(wd, work, p); err != nil {
			return err
		}
	}
	return wd.Complete()
}

// runPhase saves the current phase and runs it in the watchdog's context. The next save records that it is completed.
func (s *session) runPhase(wd *watchdog.Watchdog, work project, p phase) error {
	s.kept.Phase, s.kept.Status = p.name, state.Running
	if err := s.dir.Save(s.kept); err != nil {
		return err
	}
	begun := time.Now()
	s.reportStart(p)
	if err := s.execute(wd.Context(), work, p); err != nil {
		return err
	}
	s.kept.Completed = append(s.kept.Completed, p.name)
	s.say("%-6s done in %s", p.name, brief(time.Since(begun)))
	return nil
}

// conclude saves and reports why the run ended: a stop, an interrupt, a failed phase, or the end of all phases.
func (s *session) conclude(wd *watchdog.Watchdog, phaseErr error) error {
	var interrupted *watchdog.Interruption
	var failed *failure
	s.kept.ElapsedSeconds = int64(wd.Elapsed() / time.Second)
	switch s.stop = wd.Stop(); {
	case s.stop != nil: // also one that another process found
		s.kept.StopReason = s.stop.Code
		s.kept.ElapsedSeconds = int64(s.stop.Elapsed / time.Second)
		return s.end(state.Blocked, s.reportBlocked)
	case errors.As(context.Cause(wd.Context()), &interrupted):
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
		s.kept.Completed = append(s.kept.Completed, p.name)
	}
	return s.end(state.Complete, s.reportComplete)
}

// end saves the status. It reports the status even if the save fails.
func (s *session) end(status state.Status, report func()) error {
	s.kept.Status, s.kept.Phase = status, ""
	if left := s.left(); len(left) > 0 {
		s.kept.Phase = left[0].name
	}
	err := s.dir.Save(s.kept)
	report()
	return err
}
