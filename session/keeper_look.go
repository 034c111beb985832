package session

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// look writes what has changed since the last look. The one does not wait for the other to succeed: an end that cannot be written must not let the rows of
// live runs go stale.
func (k *Keeper) look(ctx context.Context) {
	fresh, ends, at := k.changes()
	gone, err := k.freshen(ctx, fresh, at)
	k.tellOutage(ctx, errors.Join(err, k.end(ctx, ends)))
	k.ask(gone...)
}

// changes are the runs that gave signs of life which their rows do not show, those that have ended, and when they were looked at.
func (k *Keeper) changes() (fresh []Freshness, ends []Ending, at time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for runID, r := range k.kept {
		if r.run.Context().Err() != nil {
			ends = append(ends, r.ending(runID))
			continue
		}
		now := k.now() // before the silence: a run that is silent must not seem to have given a sign meanwhile
		silence := r.run.SinceActivity()
		if r.unsure || verdict.Freshen(r.threshold, r.shown, now-silence, now) {
			r.unsure = false
			fresh = append(fresh, Freshness{RunID: runID, Attempt: r.attempt, Age: silence})
		}
	}
	return fresh, ends, k.now()
}

// ending is how a run that has ended did.
func (r *kept) ending(runID string) Ending {
	e := Ending{RunID: runID, Attempt: r.attempt, Status: Interrupted}
	cause := context.Cause(r.run.Context())
	var stop *watchdog.Stop
	switch {
	case errors.As(cause, &stop) && stop.RunID == runID:
		e.Status, e.Reason = Cancelled, stop.Code
	case errors.Is(cause, watchdog.ErrClosed):
		e.Status = Finished
	}
	return e
}

// freshen writes the rows of live runs, and returns those that are no longer theirs.
func (k *Keeper) freshen(ctx context.Context, fresh []Freshness, at time.Duration) (gone []string, err error) {
	if len(fresh) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	gone, err = k.cfg.Store.Freshen(ctx, fresh)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range fresh {
		r := k.kept[f.RunID]
		switch {
		case r == nil:
		case err != nil:
			r.unsure = true
		default:
			r.shown = at - f.Age // by when the row was written it is later, by what the call took
		}
	}
	return gone, err
}

// end writes the rows of runs that have ended, and keeps them no longer.
func (k *Keeper) end(ctx context.Context, ends []Ending) error {
	if len(ends) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	if err := k.cfg.Store.End(ctx, ends); err != nil {
		return err
	}
	for _, e := range ends {
		k.drop(e.RunID, e.Attempt)
	}
	return nil
}

// drop keeps an attempt no longer.
func (k *Keeper) drop(runID string, attempt int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.kept[runID]; r != nil && r.attempt == attempt {
		delete(k.kept, runID)
	}
}

// tellOutage tells the log when the store begins to fail, and when it stops.
func (k *Keeper) tellOutage(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // it was not the store's
	}
	k.mu.Lock()
	was, runs := k.down, len(k.kept)
	k.down = err != nil
	k.mu.Unlock()
	switch {
	case err != nil && !was:
		k.log().Error("session rows cannot be kept fresh", "runs", runs, "error", err)
	case err == nil && was:
		k.log().Info("session rows are kept fresh again", "runs", runs)
	}
}
