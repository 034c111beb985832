package watchdog

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Keeper keeps something about live runs outside of their process, so that others can see that they live: package session has one that keeps
// their rows in a database. See [Config].Keeper.
type Keeper interface {
	// Keep begins to keep the run, until its context ends. It is called by [New] and [Resume] before the run's limits are looked at, unless it was stopped already, and
	// must not wait for longer than the context. After an error nothing is kept.
	Keep(ctx context.Context, w *Watchdog) (Attempt, error)
}

// An Attempt is one process's work at a run.
type Attempt struct {
	// Number counts the attempts from 1; zero is unknown.
	Number int
	// Lost tells that the attempt before ended without a word: its process was killed, or its host went down.
	Lost bool
}

// lostAttempt is the signal of the interrupt of an attempt that ended without a word.
const lostAttempt = "attempt_lost"

// Attempt returns which attempt at the run this watchdog is, as far as a [Config].Keeper counts them.
func (w *Watchdog) Attempt() Attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attempt
}

// Parent returns the ID of the run that this one is a layer of, empty for a run of its own.
func (w *Watchdog) Parent() string { return w.parentID }

// Silence returns how long ago the run had its last activity, or was attached if there was none since; with a hold open it is 0, because
// silence is expected then. It is 0 for a run whose config has neither a Keeper nor a limit that heeds signals.
func (w *Watchdog) SinceActivity() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.Signs == nil {
		return 0
	}
	now := w.clock.elapsed()
	w.takePulse(now)
	return verdict.Silence(w.seen, now)
}

// keep has the host's keeper keep the run.
func (w *Watchdog) keep(ctx context.Context, keeper Keeper) error {
	if keeper == nil || w.ended() {
		return nil
	}
	ctx, cancel := timeout(ctx, w.clock.other, w.recordTimeout)
	defer cancel()
	attempt, err := keeper.Keep(ctx, w)
	if err != nil {
		_ = w.Close() // the error counts; nothing was stopped
		return fmt.Errorf("keep the run for others to see: %w", err)
	}
	w.mu.Lock()
	w.attempt = attempt
	w.mu.Unlock()
	if attempt.Lost {
		w.recordLost(attempt)
	}
	return nil
}

func (w *Watchdog) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.phase == ended // a trip that is being recorded can still be taken back
}

// recordLost records the end of the attempt before, which its own process could not. There is one such event for each attempt.
func (w *Watchdog) recordLost(attempt Attempt) {
	w.mu.Lock()
	at, elapsed := w.clock.now(), w.clock.elapsed()
	w.mu.Unlock()
	e := w.newEvent(EventInterrupt, at, "attempt "+strconv.Itoa(attempt.Number-1), w.interrupted(lostAttempt, at, elapsed))
	if err := w.append(e); err != nil {
		w.log().Error("watchdog could not record an interrupt", "run", w.id, "signal", lostAttempt, "error", err)
		w.keepUnrecorded(err, e)
	}
}
