package watchdog

import (
	"context"
	"fmt"

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
	found, err := w.findWindow(ctx, resume)
	if err != nil {
		w.cancel(err)
		return nil, err
	}
	if found.startedAt.After(at) { // it was resumed just now
		at = clocks.Now(cfg.Clock)
	}
	w.takeUp(found, at)
	if err := w.keep(ctx, cfg.Keeper); err != nil {
		return nil, err
	}
	w.start()
	return w, nil
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

// findWindow reads the window that the run is in and, if it is to, resumes a cancelled one. It talks to the store on
// the caller's goroutine, for at most the record timeout.
func (w *Watchdog) findWindow(ctx context.Context, resume bool) (window, error) {
	if !w.recorder.instant() {
		var cancel context.CancelFunc
		ctx, cancel = clocks.WithTimeout(ctx, w.clock.other, w.recorder.timeout)
		defer cancel()
	}
	found, err := w.readWindow(ctx)
	if err != nil || !resume || found.stop == nil {
		return found, err
	}
	w.startedAt = found.startedAt
	if err := w.recorder.store.Append(ctx, w.resumeEvent(w.clock.now())); err != nil {
		return window{}, fmt.Errorf("append resume event: %w", err)
	}
	return w.readWindow(ctx)
}

func (w *Watchdog) readWindow(ctx context.Context) (window, error) {
	events, err := w.recorder.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return window{}, fmt.Errorf("read events of run %s: %w", w.id, err)
	}
	all, err := foldEvents(events)
	if err != nil {
		return window{}, err
	}
	return all.latest(w.startedAt), nil
}

// start arms a watchdog that has not fired, and fires it if it is late.
func (w *Watchdog) start() {
	w.mu.Lock()
	if w.phase == running && w.parent != nil {
		w.stopParent = context.AfterFunc(w.parent, w.checkParent)
	}
	found := w.lookAndArm()
	w.unlock()
	w.deliver(found)
	if found.trip != nil {
		w.carryOut(found.trip)
	}
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
