package stall

import (
	"context"
	"errors"
	"time"

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

func exited(t *proctree.Tree) bool {
	select {
	case <-t.Exited():
		return true
	default:
		return false
	}
}

// hasExited reports whether the command has exited, also if its exit is not reported yet: the guard tells of an exit
// that it knows of after it has answered an order, and so before it answers the next one.
func hasExited(t *proctree.Tree) bool {
	for range 2 {
		if exited(t) {
			return true
		}
		if _, err := t.Signal(0); errors.Is(err, proctree.ErrEnded) {
			return awaitExited(t, killBound)
		}
	}
	return exited(t)
}

// awaitExited waits until the exit of the command is reported, for at most the timeout, and reports whether it was.
func awaitExited(t *proctree.Tree, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-t.Exited():
		return true
	case <-timer.C:
		return exited(t)
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

// awaitGone waits until no process of the tree is alive, for at most the timeout. It reports whether none is.
func awaitGone(t *proctree.Tree, timeout time.Duration) bool {
	if gone(t) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	select {
	case <-t.Gone():
		return true
	case <-ctx.Done():
		return false
	}
}

// awaitKilled waits until a kill has ended the tree, or it is known what survives it. It reports whether it has ended.
func awaitKilled(t *proctree.Tree) bool {
	if awaitGone(t, killBound) {
		return true
	}
	for until := time.Now().Add(unknownBound); time.Now().Before(until); {
		if _, known := t.Survivors(); known {
			break
		}
		if awaitGone(t, unknownPause) {
			return true
		}
	}
	return gone(t)
}
