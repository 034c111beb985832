package session

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// flush writes what has changed since the last flush. The rows of live runs are written also if the ends of others
// cannot be: they must not go stale.
func (k *Keeper) flush(ctx context.Context) {
	fresh, ends, at := k.changes()
	gone, err := k.freshen(ctx, fresh, at)
	k.logOutage(ctx, errors.Join(err, k.end(ctx, ends)))
	k.requestSync(gone...)
}

// changes returns the runs with activity that their rows do not show, those that have ended, and when it looked. It
// asks the runs without the mutex: a question can end a run with its parent, and so call the host.
func (k *Keeper) changes() (fresh []Freshness, ends []Ending, at time.Duration) {
	for _, r := range k.snapshot() {
		runID := r.run.ID()
		if r.run.Context().Err() != nil {
			ends = append(ends, r.ending(runID))
			continue
		}
		now := k.now() // before SinceActivity: else a silent run would seem to have been active in between
		silence := r.run.SinceActivity()
		if r.recheck || verdict.ShouldWriteRow(r.threshold, r.written, now-silence, now) {
			fresh = append(fresh, Freshness{RunID: runID, Attempt: r.attempt, Age: silence})
		}
	}
	return fresh, ends, k.now()
}

// snapshot returns copies of the runs whose rows may be written now, and clears their rechecks.
func (k *Keeper) snapshot() []keptRun {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]keptRun, 0, len(k.runs))
	for _, r := range k.runs {
		if r.skips.paused(now) {
			continue
		}
		all = append(all, *r)
		r.recheck = false
	}
	return all
}

// ending returns how a run that has ended did so.
func (r *keptRun) ending(runID string) Ending {
	e := Ending{RunID: runID, Attempt: r.attempt, Status: Interrupted}
	cause := context.Cause(r.run.Context())
	var stop *watchdog.Stop
	switch {
	case errors.As(cause, &stop) && stop.RunID == runID:
		e.Status, e.Reason = Cancelled, stop.Code
	case errors.Is(cause, watchdog.ErrComplete):
		e.Status, e.Reason = Finished, record.CompleteReason
	case errors.Is(cause, watchdog.ErrClosed):
		e.Status = Finished
	}
	return e
}

// freshen writes the rows of live runs, and returns the runs whose rows are not theirs any more.
func (k *Keeper) freshen(ctx context.Context, fresh []Freshness, at time.Duration) (gone []string, err error) {
	skipped, err := batch[Freshness]{k, fresh, Freshness.key, k.cfg.Store.Freshen}.writeAll(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range fresh {
		r := k.runs[f.RunID]
		switch {
		case r == nil || r.attempt != f.Attempt:
		case err != nil || skipped[f.RunID] == stayed:
			r.recheck = true
		default:
			r.written = at - f.Age // the row shows a later time, by as much as the call took
			if skipped[f.RunID] == wentAway {
				gone = append(gone, f.RunID)
			}
		}
	}
	return gone, err
}

// end writes the rows of runs that have ended, and then drops the runs.
func (k *Keeper) end(ctx context.Context, ends []Ending) error {
	skipped, err := batch[Ending]{k, ends, Ending.key, k.cfg.Store.End}.writeAll(ctx)
	if err != nil {
		return err
	}
	for _, e := range ends {
		if skipped[e.RunID] != stayed {
			k.drop(e.RunID, e.Attempt)
		}
	}
	return nil
}

// logOutage logs when the store begins to fail, and when it works again.
func (k *Keeper) logOutage(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the keeper was stopped in the middle of a call
	}
	k.mu.Lock()
	was, runs := k.down, len(k.runs)
	k.down = err != nil
	k.mu.Unlock()
	switch {
	case err != nil && !was:
		k.logger().Error("session rows cannot be kept fresh", "runs", runs, "error", err)
	case err == nil && was:
		k.logger().Info("session rows are kept fresh again", "runs", runs)
	}
}
