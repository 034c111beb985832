package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/bounded"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A Keeper keeps something about live runs outside of their process, so that others can see that they live: package
// session has one that keeps their rows in a database. See [Config].Keeper.
type Keeper interface {
	// Keep begins to keep the run, until its context ends. New and Resume call it before they look at the run's limits,
	// unless the run was stopped already; Resume before it records the fresh window. It must return when ctx ends. After
	// an error nothing is kept.
	Keep(ctx context.Context, w *Watchdog) (Attempt, error)
	// Ended tells that the run has ended, for the keeper to write that down now. Close and Complete call it and wait for
	// it: who attaches after they have returned finds the run ended. It must return when ctx ends, and can be called for a
	// run that is not kept any more.
	Ended(ctx context.Context, w *Watchdog)
}

// An Attempt is one process's work at a run.
type Attempt struct {
	// Number counts the attempts from 1; zero is unknown.
	Number int
	// Lost tells that the process of the attempt before ended without recording anything: it was killed, or its host went
	// down.
	Lost bool
	// Stopped tells that a guard stopped the run before this attempt, as far as the keeper knows. New then reads the run's
	// events again: the stop may have come after it read them.
	Stopped bool
}

// Attempt returns which attempt at the run this watchdog is, as far as a [Config].Keeper counts them; zero for a nil
// Watchdog.
func (w *Watchdog) Attempt() Attempt {
	if w == nil {
		return Attempt{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.more == nil {
		return Attempt{}
	}
	return w.more.attempt
}

// SinceActivity returns how long ago the run had its last activity, or was attached if there was none since. With a
// hold open it is 0, because silence is expected then. It is 0 for a run whose config has neither a Keeper nor a limit
// that heeds signals, until it has a hold with an Idle, and for a nil Watchdog.
func (w *Watchdog) SinceActivity() time.Duration {
	if w == nil {
		return 0
	}
	silence, _ := w.silence()
	return silence
}

// silence returns how long the run has given no sign of life, and whether it has given one since its attach.
func (w *Watchdog) silence() (silence time.Duration, signalled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pulse.Load() == nil {
		return 0, false
	}
	now := w.clock.elapsed()
	w.takePulse(now)
	return verdict.Silence(w.seen, now), verdict.Signalled(w.seen)
}

// tellKeeper has the host's keeper write down that the run has ended. The caller has waited since began.
func (w *Watchdog) tellKeeper(began time.Time) {
	keeper := w.keptBy()
	if keeper == nil {
		return
	}
	left := w.recorder.left(began)
	if left <= 0 {
		return
	}
	ctx, cancel := clocks.WithTimeout(w.storeContext(), w.clock.other, left)
	defer cancel()
	_, err := bounded.Do(ctx, func() (struct{}, error) { keeper.Ended(ctx, w); return struct{}{}, nil })
	if err != nil {
		w.log().Error("the keeper of a run did not take its end", "run", w.id, "error", err)
	}
}

// keptBy returns the keeper that keeps the run, or nil.
func (w *Watchdog) keptBy() Keeper {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.more == nil {
		return nil
	}
	return w.more.keeper
}

// keep has the host's keeper keep the run.
func (w *Watchdog) keep(ctx context.Context, keeper Keeper, resumed bool) error {
	if keeper == nil || w.hasEnded() {
		return nil
	}
	ctx, cancel := clocks.WithTimeout(ctx, w.clock.other, w.recorder.timeout)
	defer cancel()
	attempt, err := keeper.Keep(ctx, w)
	if err != nil {
		_ = w.Close() // the error counts; nothing was stopped
		return fmt.Errorf("keep the run for others to see: %w", err)
	}
	w.mu.Lock()
	w.extras().attempt, w.more.keeper = attempt, keeper
	w.mu.Unlock()
	if attempt.Lost {
		w.recordLost(attempt)
	}
	if attempt.Stopped && !resumed {
		_, err = w.sync(ctx)
	}
	if err != nil && (errors.Is(err, ErrComplete) || !errors.Is(err, ErrEnded)) {
		_ = w.Close() // the error counts
		return fmt.Errorf("read why the run was stopped: %w", err)
	}
	return nil
}
