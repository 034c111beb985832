package stall

import (
	"context"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// The bounds of what comes after the last grace. Together they are less than a second.
const (
	// killBound is how long a SIGKILL may take.
	killBound = 700 * time.Millisecond
	// drainBound is how long the readers of the output have after it.
	drainBound = 200 * time.Millisecond
	// leftBehindGrace is how long what a command left behind may take after a SIGTERM.
	leftBehindGrace = time.Second
)

// A step is a signal of an ending and how long it may take.
type step struct {
	signal syscall.Signal
	grace  time.Duration
}

// steps are what an action does to a tree.
func (c *Config) steps(a TripAction) []step {
	switch a {
	case ActionIgnore:
		return nil
	case ActionFail:
		return []step{{syscall.SIGKILL, killBound}}
	default:
		return []step{{syscall.SIGINT, c.Grace.Interrupt}, {syscall.SIGTERM, c.Grace.Terminate}, {syscall.SIGKILL, killBound}}
	}
}

// end ends the tree and notes what was sent. A command that has ended before the first signal is finished.
func (s *sentinel) end(action TripAction) {
	steps := s.cfg.steps(action)
	for _, step := range steps {
		s.result.Requested = append(s.result.Requested, step.signal)
	}
	for _, step := range steps {
		if exited(s.tree) && len(s.result.Sent) == 0 {
			s.result.Finished = true
			s.endLeftBehind()
			return
		}
		s.send(step.signal)
		if awaitGone(s.tree, step.grace) {
			s.result.Terminated = len(s.result.Sent) > 0
			s.result.EndedBy = s.lastSent()
			return
		}
	}
}

// send sends a signal to all that is alive.
func (s *sentinel) send(sig syscall.Signal) {
	at := time.Now()
	var reached int
	if sig == syscall.SIGKILL {
		reached, _ = s.tree.Signal(0) // who is there, for the record
		_ = s.tree.Kill()
	} else {
		reached, _ = s.tree.Signal(sig)
	}
	if reached > 0 {
		s.result.Sent = append(s.result.Sent, Sent{Signal: sig, At: at, Processes: reached})
	}
}

func (s *sentinel) lastSent() syscall.Signal {
	if n := len(s.result.Sent); n > 0 {
		return s.result.Sent[n-1].Signal
	}
	return 0
}

// endLeftBehind ends, or leaves, what is alive after the command ended by itself.
func (s *sentinel) endLeftBehind() {
	if gone(s.tree) {
		return
	}
	if s.cfg.KeepBackground {
		_ = s.tree.Release()
		awaitGone(s.tree, killBound)
		return
	}
	reached, err := s.tree.Signal(syscall.SIGTERM)
	s.result.LeftBehind = reached
	if err == nil && awaitGone(s.tree, leftBehindGrace) {
		return
	}
	_ = s.tree.Kill()
	awaitGone(s.tree, killBound)
}

func exited(t *proctree.Tree) bool {
	select {
	case <-t.Exited():
		return true
	default:
		return false
	}
}

func gone(t *proctree.Tree) bool {
	select {
	case <-t.Gone():
		return true
	default:
		return false
	}
}

// awaitGone waits until nothing of a tree is alive, and reports whether that came.
func awaitGone(t *proctree.Tree, most time.Duration) bool {
	if gone(t) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	select {
	case <-t.Gone():
		return true
	case <-ctx.Done():
		return false
	}
}
