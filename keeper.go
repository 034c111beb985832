package watchdog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
)

// A Keeper keeps something about live runs outside of their process, so that others can see that they live: package
// session has one that keeps their rows in a database. See [Config].Keeper.
type Keeper interface {
	// Keep begins to keep the run, until its context ends. New and Resume call it before they look at the run's limits,
	// unless the run was stopped already; Resume before it records the fresh window. It must return when ctx ends. After
	// an error nothing is kept.
	Keep(ctx context.Context, w *Watchdog) (Attempt, error)
	// Ended tells that the run has ended, for the keeper to write that down now. Close and Complete call it and wait for
	// it: who attaches after they have returned finds the run ended. It must return when ctx ends, and can be called for
	// a run that is not kept any more.
	Ended(ctx context.Context, w *Watchdog)
}

// An Attempt is one process's work at a run.
type Attempt struct {
	// Number counts the attempts from 1; zero is unknown.
	Number int
	// Lost tells that the process of the attempt before ended without recording anything: it was killed, or its host went
	// down.
	Lost bool
	// Stopped tells that a guard stopped the run before this attempt, as far as the keeper knows. New then reads the
	// run's events again: the stop may have come after it read them.
	Stopped bool
}

// Attempt returns which attempt at the run this watchdog is, as far as a [Config].Keeper counts them; zero for a nil
// Watchdog.
func (w *Watchdog) Attempt() Attempt {
	if w == nil {
		return Attempt{}
	}
	w.r.tree.mu.Lock()
	defer w.r.tree.mu.Unlock()
	if w.r.more == nil {
		return Attempt{}
	}
	return w.r.more.attempt
}

// SinceActivity returns how long ago the run had its last activity, or was attached if there was none since. With a
// hold open it is 0, because silence is expected then. It is 0 for a run whose config has neither a Keeper nor a limit
// that heeds signals, until it has a hold with an Idle, and for a nil Watchdog.
func (w *Watchdog) SinceActivity() time.Duration {
	if w == nil {
		return 0
	}
	silence, _ := w.r.silence()
	return silence
}

// silence returns how long the run has given no sign of life, and whether it has given one since its attach.
func (r *run) silence() (silence time.Duration, signalled bool) {
	r.locked(func() { silence, signalled = r.node.Silence(r.now()) })
	return silence, signalled
}

// tellKeeper has the host's keeper write down that the run has ended. The caller has waited since began.
func (r *run) tellKeeper(began time.Time) {
	var keeper func(context.Context)
	r.locked(func() {
		if r.more != nil {
			keeper = r.more.keeper
		}
	})
	left := r.tree.left(began)
	if keeper == nil || left <= 0 {
		return
	}
	ctx, cancel := clocks.WithTimeout(r.storeContext(), r.tree.clock.other, left)
	defer cancel()
	_, err := bounded.Do(ctx, func() (struct{}, error) { keeper(ctx); return struct{}{}, nil })
	if err != nil {
		r.tree.callLogSince(began, func() {
			r.log().Error("the keeper of a run did not take its end", "run", r.node.Run, "error", err)
		})
	}
}

// keep has the host's keeper keep the run.
func (w *Watchdog) keep(ctx context.Context, keeper Keeper, resumed bool) error {
	r := &w.r
	if keeper == nil || r.hasEnded() {
		return nil
	}
	ctx, cancel := clocks.WithTimeout(ctx, r.tree.clock.other, r.tree.timeout)
	defer cancel()
	attempt, err := keeper.Keep(ctx, w)
	if err != nil {
		_ = w.Close() // the error counts; nothing was stopped
		return fmt.Errorf("keep the run for others to see: %w", err)
	}
	r.locked(func() {
		r.extras().attempt, r.more.keeper = attempt, func(ctx context.Context) { keeper.Ended(ctx, w) }
	})
	if attempt.Lost {
		r.recordLost(attempt)
	}
	if attempt.Stopped && !resumed {
		_, err = r.sync(ctx)
	}
	if err != nil && (errors.Is(err, ErrComplete) || !errors.Is(err, ErrEnded)) {
		_ = w.Close() // the error counts
		return fmt.Errorf("read why the run was stopped: %w", err)
	}
	return nil
}

// lostAttempt is the signal of the interrupt of an attempt whose process ended without recording anything.
const lostAttempt = "attempt_lost"

// recordLost records the end of the attempt before, which its own process could not. There is one such event for each
// attempt.
func (r *run) recordLost(attempt Attempt) {
	began := clocks.Now(r.tree.clock.other)
	e := r.interruptEvent(lostAttempt, "attempt "+strconv.Itoa(attempt.Number-1))
	if err := r.append(e); err != nil {
		r.tree.callLogSince(began, func() {
			r.log().Error("watchdog could not record an interrupt", "run", r.node.Run, "signal", lostAttempt, "error", err)
		})
		r.keep(err, e)
	}
}
