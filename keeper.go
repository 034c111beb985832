package watchdog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
)

// A Keeper keeps something about live runs outside of their process, so that others can see that they live: package
// session has one that keeps their rows in a database. See [Config].Keeper.
type Keeper interface {
	// Start returns when the run began that the keeper has kept and that has not ended, zero if there is none. New and
	// Resume call it for a run without StartedAt of which the store has no event. It must return when ctx ends.
	Start(ctx context.Context, runID string) (time.Time, error)
	// Keep begins to keep the run, until its context ends. New and Resume call it before they look at the run's limits,
	// unless the run was stopped already; Resume before it records the fresh window. It must return when ctx ends. After
	// an error nothing is kept.
	Keep(ctx context.Context, w *Watchdog) (Attempt, error)
	// Ended tells that the run has ended, for the keeper to write that down now. Close and Complete call it and wait for
	// it: who attaches after they have returned finds the run ended. It must return when ctx ends, and can be called for
	// a run that is not kept any more.
	Ended(ctx context.Context, w *Watchdog)
}

// Sync reads from the store what others did to the run's window, such as a sweeper on another host, and adopts it: a
// cancel ends the run, with the stored stop as the cause, that it is complete ends it, too, an extension counts.
// Nothing is recorded. A run that is only observed ends as well, because the stored cancel was carried out, and the
// next attach finds it so.
//
// Sync returns the run's stop, nil while it goes on. It takes at most the record timeout, or as long as the context
// lasts; the run's limits go on meanwhile. The error wraps the store's, the context's or [ErrUnreadableEvent], and then
// nothing has changed; or [ErrEnded], if the run has ended without a stop. On a nil Watchdog it does nothing.
func (w *Watchdog) Sync(ctx context.Context) (*Stop, error) {
	if w == nil {
		return nil, nil
	}
	stop, err := w.r.sync(ctx)
	if err != nil {
		return nil, fmt.Errorf("sync run %s with its events: %w", w.r.Node.Run, err)
	}
	return stop, nil
}

func (r *run) sync(ctx context.Context) (*Stop, error) {
	began := clocks.Now(r.Tree.Clock)
	_ = r.poll() // a run that is late has ended
	if r.Inner().Err() != nil {
		return r.howEnded()
	}
	r.Locked(r.Node.Draw)
	found, err := r.Record.Consult(ctx)
	if err != nil {
		return nil, err
	}
	return r.adopt(&found, began)
}

// Attempt returns which attempt at the run this watchdog is, as far as a [Config].Keeper counts them; zero for a nil
// Watchdog.
func (w *Watchdog) Attempt() Attempt {
	if w == nil {
		return Attempt{}
	}
	return w.r.attempted()
}

func (r *run) attempted() Attempt {
	r.Lock()
	defer r.Unlock()
	if r.more == nil {
		return Attempt{}
	}
	return r.more.attempt
}

// attempt is the number of the attempt at the session, 0 if it is unknown.
func (r *run) attempt() int {
	for r.around() != nil {
		r = r.around()
	}
	return r.attempted().Number
}

// SinceActivity returns how long ago the run had its last activity, or was attached if there was none since. With a
// hold open it is 0, because silence is expected then. It is 0 for a run whose config has neither a Keeper nor a limit
// that heeds signals, until it has a hold with an Idle, and for a nil Watchdog.
func (w *Watchdog) SinceActivity() time.Duration {
	if w == nil {
		return 0
	}
	silence, _ := (*runHandle)(w).Silence()
	return silence
}

func (w *Watchdog) keep(ctx context.Context, keeper Keeper, resumed bool) error {
	r := &w.r
	if keeper == nil || r.Over() {
		return nil
	}
	ctx, cancel := clocks.WithTimeout(ctx, r.Tree.Clock, r.Tree.Timeout)
	defer cancel()
	attempt, err := keeper.Keep(ctx, w)
	if err != nil {
		_ = w.Close() // the error counts; nothing was stopped
		return fmt.Errorf("keep the run for others to see: %w", err)
	}
	r.Locked(func() {
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
	began := clocks.Now(r.Tree.Clock)
	e := r.interruptEvent(lostAttempt, "attempt "+strconv.Itoa(attempt.Number-1))
	if err := r.Record.AppendOrKeep(r.Values(), e); err != nil {
		r.LogSince(began, func() {
			r.log().Error("watchdog could not record an interrupt", "run", r.Node.Run, "signal", lostAttempt, "error", err)
		})
	}
}
