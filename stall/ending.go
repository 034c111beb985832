package stall

import (
	"errors"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

// How long Run may take besides, after the last grace. killBound and drainBound together are less than a second.
const (
	// drainBound is how long the readers then have to take the rest of the output.
	drainBound = 200 * time.Millisecond
	// fillBound is how long it may take, before that, to put the rest of the output into the host's pipes.
	fillBound = 5 * time.Second
	// leftBehindGrace is how long the processes that an exited command left behind have after SIGTERM.
	leftBehindGrace = time.Second
)

// end ends the tree and notes what was sent. A command that exited before the first signal has finished.
func (s *sentinel) end(action TripAction) {
	steps := s.cfg.steps(action)
	for _, step := range steps {
		s.result.Requested = append(s.result.Requested, step.Signal)
	}
	if hasExited(s.tree) {
		s.finish()
		return
	}
	told := s.cfg.tellEscalation(len(steps))
	defer close(told)
	for i, step := range steps {
		e := s.send(step, steps[i+1:])
		if len(s.result.Sent) == 0 && awaitExited(s.tree, killBound) {
			s.finish()
			return
		}
		told <- e
		if !e.awaitGone(s.tree) {
			continue
		}
		if s.killedTooLate() {
			s.result.LeftBehind, s.result.Sent = s.result.Sent[0].Processes, nil
		}
		if len(s.result.Sent) == 0 { // the guard told it so late
			s.finish()
			return
		}
		s.result.Terminated = len(s.result.Sent) > 0
		if s.result.EndedBy = s.lastSent(); s.killed.Load() {
			s.result.EndedBy = syscall.SIGKILL
		}
		return
	}
}

// finish notes that the command exited by itself, and corrects its cancel if there is one.
func (s *sentinel) finish() {
	if s.result.Finished = s.exitedByItself(); s.result.Finished {
		s.recordFinished()
	}
	s.endLeftBehind()
}

// exitedByItself reports whether a command that was not signalled has: the host did not kill it, and it was not lost.
func (s *sentinel) exitedByItself() bool {
	return s.tree.Err() == nil && !(s.killed.Load() && s.tree.Status().Signal == syscall.SIGKILL)
}

// recordFinished corrects the cancel of a command that exited by itself, if there is one, and ends its run.
func (s *sentinel) recordFinished() {
	if s.result.Finished && !s.corrected {
		s.corrected = handle.Of(s.run.Context()).RecordFinished()
		if s.corrected && s.result.Trip == nil { // its wall clock ended as it did, and its exit was seen first
			s.noteWallClock(s.run.Stop())
		}
	}
}

// killedTooLate reports whether the only signal was SIGKILL and the command has an exit status: then it had exited
// before that reached it.
func (s *sentinel) killedTooLate() bool {
	status := s.tree.Status()
	return len(s.result.Sent) == 1 && s.lastSent() == syscall.SIGKILL && status.Signal == 0 && status.ExitCode >= 0 &&
		s.tree.Err() == nil
}

// send sends a signal to every living process of the tree, and says what comes next.
func (s *sentinel) send(step Step, after []Step) Escalation {
	sig := step.Signal
	e := Escalation{Sent: Sent{Signal: sig, At: now()}}
	e.Processes, e.Missed, _ = signalTree(s.tree, sig)
	if sig == syscall.SIGKILL {
		_ = s.tree.Kill() // also what is started meanwhile
	}
	if e.Processes+e.Missed > 0 {
		s.result.Sent = append(s.result.Sent, e.Sent)
	}
	if len(after) > 0 {
		e.Next, e.NextAt = after[0].Signal, now().Add(step.Grace)
	}
	return e
}

// signalTree returns how many processes a signal reached, and how many it could not reach.
func signalTree(t *proctree.Tree, sig syscall.Signal) (reached, missed int, err error) {
	reached, err = t.Signal(sig)
	var m *proctree.MissedError
	if errors.As(err, &m) {
		return reached, m.Processes, nil
	}
	return reached, 0, err
}

func (s *sentinel) lastSent() syscall.Signal {
	if n := len(s.result.Sent); n > 0 {
		return s.result.Sent[n-1].Signal
	}
	return 0
}

// endLeftBehind ends the processes that are alive after the command exited by itself, or releases them if the config
// keeps them.
func (s *sentinel) endLeftBehind() {
	if s.killed.Load() {
		s.endKilled()
		return
	}
	if gone(s.tree) {
		return
	}
	if s.cfg.KeepBackground {
		s.io.keep()
		_ = s.tree.Release()
		awaitGone(s.tree, unknownBound)
		return
	}
	reached, missed, err := signalTree(s.tree, syscall.SIGTERM)
	s.result.LeftBehind = reached + missed
	if err == nil && awaitGone(s.tree, leftBehindGrace) {
		return
	}
	_ = s.tree.Kill()
	awaitKilled(s.tree)
}

// endKilled waits for the end of a command that the host killed.
func (s *sentinel) endKilled() {
	_ = s.tree.Kill()
	ended := awaitKilled(s.tree)
	if !s.result.Finished {
		s.result.Terminated, s.result.EndedBy = ended, syscall.SIGKILL
	}
}
