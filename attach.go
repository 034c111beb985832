package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// attach makes a watchdog, for a run that may be cancelled only if it is to be resumed.
func attach(ctx context.Context, run Run, cfg *Config, outer *Watchdog, resume bool) (*Watchdog, error) {
	at := clocks.Now(cfg.Clock)
	if err := cfg.check(ctx, run, at); err != nil {
		return nil, err
	}
	w, err := newWatchdog(run, cfg, outer)
	if err != nil {
		return nil, err
	}
	w.newRunContext(ctx)
	found, err := w.findWindow(ctx)
	if err != nil {
		w.cancel(err)
		return nil, err
	}
	var fresh *resumption
	if resume && found.stop != nil {
		at = clocks.Now(cfg.Clock)
		fresh = w.newResumption(found, at)
		found = window{startedAt: fresh.startedAt}
	}
	w.takeUp(found, at)
	if err := w.keep(ctx, cfg.Keeper); err != nil {
		return nil, err
	}
	if opened, err := w.recordResumption(ctx, fresh); err != nil || !opened {
		w.endRunning(fresh.cancelled) // no longer kept; for its keeper it is cancelled, as before
		_ = w.Close()                 // what else could not be recorded is tried once more; the error counts
		if err != nil {
			return nil, err
		}
		return attach(ctx, run, cfg, outer, resume)
	}
	w.start()
	return w, nil
}

// A resumption opens the window after that of a cancelled run. It is recorded when the run is kept already, so that
// after an error there is no fresh window that nobody runs.
type resumption struct {
	previous, startedAt time.Time
	cancelled           *Stop // of the window before
	event               Event
}

func (w *Watchdog) newResumption(cancelled window, at time.Time) *resumption {
	w.startedAt = cancelled.startedAt
	startedAt := record.Truncate(at)
	if !startedAt.After(cancelled.startedAt) {
		startedAt = cancelled.startedAt.Add(time.Microsecond)
	}
	return &resumption{cancelled.startedAt, startedAt, cancelled.stop, w.resumeEvent(at, startedAt)}
}

// recordResumption appends the event and reports whether the window that it opened is this one: another process may
// have resumed the run meanwhile, at another time. Without a resumption there is nothing to open.
func (w *Watchdog) recordResumption(ctx context.Context, fresh *resumption) (opened bool, err error) {
	if fresh == nil {
		return true, nil
	}
	ctx, cancel := w.attachContext(ctx)
	defer cancel()
	if err := w.recorder.store.Append(ctx, fresh.event); err != nil {
		return false, fmt.Errorf("append resume event: %w", err)
	}
	found, err := w.readWindow(ctx, fresh.previous)
	if err != nil {
		return false, fmt.Errorf("the run is resumed; attach to it: %w", err)
	}
	return found.startedAt.Equal(fresh.startedAt), nil
}

func newWatchdog(run Run, cfg *Config, outer *Watchdog) (*Watchdog, error) {
	w := &Watchdog{
		id: run.ID, parentID: run.Parent, startedAt: record.Truncate(run.StartedAt), outer: outer,
		trace: newTrace(cfg.OnSignal), clock: runClock{other: cfg.Clock},
	}
	w.recorder.configure(cfg)
	classes, err := cfg.Kinds.classes()
	if err != nil {
		return nil, err
	}
	if outer != nil {
		classes = outer.classes
	}
	w.settings = cfg.settings(classes)
	if cfg.hasSignals() {
		w.pulse, w.seen.Signs = &pulse{}, &verdict.Signs{}
	}
	w.item.Owner = w
	return w, nil
}

// findWindow reads the window that the run is in.
func (w *Watchdog) findWindow(ctx context.Context) (window, error) {
	ctx, cancel := w.attachContext(ctx)
	defer cancel()
	return w.readWindow(ctx, w.startedAt)
}

// attachContext is for what an attach asks the store, on the caller's goroutine, for at most the record timeout.
func (w *Watchdog) attachContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.recorder.instant() {
		return ctx, func() {}
	}
	return clocks.WithTimeout(ctx, w.clock.other, w.recorder.timeout)
}

// readWindow reads the window that the run is in, of which the host says that it began at hostStart.
func (w *Watchdog) readWindow(ctx context.Context, hostStart time.Time) (window, error) {
	events, err := w.recorder.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return window{}, fmt.Errorf("read events of run %s: %w", w.id, err)
	}
	all, err := foldEvents(events)
	if err != nil {
		return window{}, err
	}
	return all.latest(hostStart), nil
}

// start arms a watchdog that has not fired, and fires it if it is late.
func (w *Watchdog) start() {
	w.mu.Lock()
	if w.phase == running && w.parent != nil {
		w.stopParent = context.AfterFunc(w.parent, w.checkParent)
	}
	found := w.lookAndArm()
	w.mu.Unlock()
	w.doFound(found)
	if w.neverFires() {
		w.log().Warn("watchdog has no limit and can never fire", "run", w.id)
	}
}

// neverFires reports whether nothing can end the run but a hold that brings its own cap.
func (w *Watchdog) neverFires() bool {
	l := w.limits
	return min(l.WallClock, l.Safety, l.Idle, l.NoProgress,
		w.limits.holdCap) == NoLimit && (!l.FromFirstSign || l.FirstSign == NoLimit)
}
