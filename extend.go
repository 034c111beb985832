package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Extend gives the running window more time, by d in whole microseconds, recorded as [EventExtend] before it counts. Other processes that watch the run
// learn of it when they look at the store: at the latest when the old budget is used up there.
//
// It wraps [ErrInvalid], [ErrEnded] where the run has ended (resume it instead), or the store's error; then
// nothing has changed, unless the store was too slow to answer and keeps the event after all.
func (w *Watchdog) Extend(d time.Duration) error {
	if err := w.extend(d); err != nil {
		return fmt.Errorf("extend run %s by %v: %w", w.id, d, err)
	}
	return nil
}

func (w *Watchdog) extend(d time.Duration) error {
	d = d.Truncate(time.Microsecond) // as its event says it
	event, err := w.extendEvent(d)
	if err != nil {
		return err
	}
	extended, err := exchange(w, func(ctx context.Context) (time.Duration, error) { return w.recordExtension(ctx, event, d) })
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == running && extended > w.seen.Extended {
		w.extendTo(extended)
	}
	return nil
}

// recordExtension appends the event and returns how much the window is extended then. It asks the store, because a trip or [Watchdog.Sync] may have
// found the event there and counted it already.
func (w *Watchdog) recordExtension(ctx context.Context, event Event, d time.Duration) (time.Duration, error) {
	before := w.extension()
	if err := w.store.Append(ctx, event); err != nil {
		return 0, err
	}
	stored, _ := w.consult(ctx)
	return max(stored.extended, verdict.Sum(before, d)), nil
}

// extendEvent checks the extension and returns its event.
func (w *Watchdog) extendEvent(d time.Duration) (Event, error) {
	_ = w.poll() // a run that is late has ended
	w.mu.Lock()
	defer w.mu.Unlock()
	budget := verdict.Sum(w.limits.WallClock, w.seen.Extended)
	switch {
	case w.phase != running:
		return Event{}, fmt.Errorf("%w: %w", ErrEnded, w.cause())
	case d <= 0:
		return Event{}, fmt.Errorf("%w extension: it has to be a microsecond or more", ErrInvalid)
	case budget == NoLimit:
		return Event{}, fmt.Errorf("%w extension: the run has no wall-clock limit", ErrInvalid)
	case verdict.Sum(budget, d) == NoLimit:
		return Event{}, fmt.Errorf("%w extension: %v and that is more than a duration can hold", ErrInvalid, budget)
	}
	at := w.clock.now()
	return w.newEvent(EventExtend, at, "", extendPayload{
		SessionStartedAt: stamp(w.startedAt), ExtendedAt: stamp(at), ElapsedSeconds: wholeSeconds(w.clock.elapsed()),
		ExtensionSeconds: d.Seconds(), ConfiguredBudgetSeconds: (budget + d).Seconds(), Parent: w.parentID,
	}), nil
}
