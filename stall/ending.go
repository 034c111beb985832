package stall

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

// killBound is how long SIGKILL may take where something survives it. It is a variable for tests.
var killBound = 700 * time.Millisecond

const (
	// unknownBound is how much longer than killBound SIGKILL may take while nothing is known to survive it: on a busy
	// machine what was killed waits for a processor to die on, and so does the guard that says what is left. It is also
	// how long a guard may take to let go what is kept.
	unknownBound = 15 * time.Second
	// unknownPause is how often that is asked meanwhile.
	unknownPause = 20 * time.Millisecond
)

// How long Run may take besides, after the last grace. killBound and drainBound together are less than a second.
const (
	// drainBound is how long the readers then have to take the rest of the output.
	drainBound = 200 * time.Millisecond
	// leftBehindGrace is how long the processes that an exited command left behind have after SIGTERM.
	leftBehindGrace = time.Second
)

// steps returns what an action does to a process tree. SIGKILL comes last.
func (c *Config) steps(a TripAction) []Step {
	kill := Step{Signal: syscall.SIGKILL}
	switch n := len(c.Grace); {
	case a == ActionIgnore:
		return nil
	case a == ActionFail:
		return []Step{kill}
	case c.Grace[n-1].Signal == syscall.SIGKILL:
		return append(slices.Clone(c.Grace[:n-1]), kill)
	default:
		return append(slices.Clone(c.Grace), kill)
	}
}

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
		if len(s.result.Sent) == 0 && closes(s.tree.Exited(), killBound) {
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
		s.result.Terminated, s.result.EndedBy = true, s.result.Sent[len(s.result.Sent)-1].Signal
		if s.killed.Load() {
			s.result.EndedBy = syscall.SIGKILL
		}
		return
	}
}

// finish notes that the command exited by itself, and corrects its cancel if there is one.
func (s *sentinel) finish() {
	s.result.Finished = s.exitedByItself()
	s.recordFinished()
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
	sent, status := s.result.Sent, s.tree.Status()
	return len(sent) == 1 && sent[0].Signal == syscall.SIGKILL && status.Signal == 0 && status.ExitCode >= 0 &&
		s.tree.Err() == nil
}

// send sends a signal to every living process of the tree, and says what comes next.
func (s *sentinel) send(step Step, after []Step) Escalation {
	sig := step.Signal
	e := Escalation{Sent: Sent{Signal: sig, At: time.Now()}}
	e.Processes, e.Missed, _ = signalTree(s.tree, sig)
	if sig == syscall.SIGKILL {
		_ = s.tree.Kill() // also what is started meanwhile
	}
	if e.Processes+e.Missed > 0 {
		s.result.Sent = append(s.result.Sent, e.Sent)
	}
	if len(after) > 0 {
		e.Next, e.NextAt = after[0].Signal, time.Now().Add(step.Grace)
	}
	return e
}

func signalTree(t *proctree.Tree, sig syscall.Signal) (reached, missed int, err error) {
	reached, err = t.Signal(sig)
	var m *proctree.MissedError
	if errors.As(err, &m) {
		return reached, m.Processes, nil
	}
	return reached, 0, err
}

// endLeftBehind ends the processes that are alive after the command exited by itself, or releases them if the config
// keeps them.
func (s *sentinel) endLeftBehind() {
	if s.killed.Load() {
		s.endKilled()
		return
	}
	if isClosed(s.tree.Gone()) {
		return
	}
	if s.cfg.KeepBackground {
		s.io.keep()
		_ = s.tree.Release()
		closes(s.tree.Gone(), unknownBound)
		return
	}
	reached, missed, err := signalTree(s.tree, syscall.SIGTERM)
	s.result.LeftBehind = reached + missed
	if err == nil && closes(s.tree.Gone(), leftBehindGrace) {
		return
	}
	_ = s.tree.Kill()
	awaitKilled(s.tree)
}

func (s *sentinel) endKilled() {
	_ = s.tree.Kill()
	ended := awaitKilled(s.tree)
	if !s.result.Finished {
		s.result.Terminated, s.result.EndedBy = ended, syscall.SIGKILL
	}
}

// awaitGone waits until the signal has ended the tree, and reports whether it has.
func (e Escalation) awaitGone(t *proctree.Tree) bool {
	if e.Next == 0 {
		return awaitKilled(t)
	}
	return closes(t.Gone(), time.Until(e.NextAt))
}

// tellEscalation returns a channel with room for all that the host is to be told: it is called on another goroutine,
// and one that hangs is told nothing more.
func (c *Config) tellEscalation(most int) chan<- Escalation {
	told := make(chan Escalation, most)
	if c.OnSignal == nil {
		return told
	}
	go func() {
		for e := range told {
			err := inTime(c.RecordTimeout, func() error { c.OnSignal(e); return nil })
			if errors.Is(err, bounded.ErrLeftBehind) {
				return
			}
		}
	}()
	return told
}

// hasExited reports whether the command has exited, also if its exit is not reported yet: the guard tells of an exit
// that it knows of after it has answered an order, and so before it answers the next one.
func hasExited(t *proctree.Tree) bool {
	for range 2 {
		if isClosed(t.Exited()) {
			return true
		}
		if _, err := t.Signal(0); errors.Is(err, proctree.ErrEnded) {
			return closes(t.Exited(), killBound)
		}
	}
	return isClosed(t.Exited())
}

// awaitKilled waits until a kill has ended the tree, or it is known what survives it. It reports whether it has ended.
func awaitKilled(t *proctree.Tree) bool {
	if closes(t.Gone(), killBound) {
		return true
	}
	for until := time.Now().Add(unknownBound); time.Now().Before(until); {
		if _, known := t.Survivors(); known {
			break
		}
		if closes(t.Gone(), unknownPause) {
			return true
		}
	}
	return isClosed(t.Gone())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// closes waits until the channel is closed, for at most the timeout, and reports whether it is.
func closes(c <-chan struct{}, timeout time.Duration) bool {
	if isClosed(c) {
		return true
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return isClosed(c)
	}
}
