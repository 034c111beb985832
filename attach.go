package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// attach makes a watchdog, for a run that may be cancelled only where it is to be resumed.
func attach(ctx context.Context, run Run, cfg *Config, outer *Watchdog, resume bool) (*Watchdog, error) {
	at := now(cfg.Clock)
	err := check(ctx, run, cfg, at)
	if err != nil {
		return nil, err
	}
	w := newWatchdog(run, cfg)
	if w.outer = outer; outer != nil {
		w.classes = outer.classes
	} else if w.classes, err = cfg.Kinds.classes(); err != nil {
		return nil, err
	}
	w.newRunContext(ctx)
	found, err := w.findWindow(ctx, cfg, resume)
	if err != nil {
		w.cancel(err)
		return nil, err
	}
	if found.startedAt.After(at) { // it was resumed just now
		at = now(cfg.Clock)
	}
	w.takeUp(found, cfg.Clock, at)
	if err := w.keep(ctx, cfg.Keeper); err != nil {
		return nil, err
	}
	w.start()
	return w, nil
}

// check returns the first flaw of what a watchdog is made of.
func check(ctx context.Context, run Run, cfg *Config, now time.Time) error {
	if err := run.check(now); err != nil {
		return err
	}
	if err := cfg.Budget.check(); err != nil {
		return err
	}
	switch {
	case cfg.Store == nil:
		return fmt.Errorf("%w config: Store is nil; set Config.Store; &watchdog.Memory{} is one", ErrInvalid)
	case cfg.RecordTimeout < 0:
		return fmt.Errorf("%w config: RecordTimeout is %v; use a positive duration, or 0 for %v", ErrInvalid, cfg.RecordTimeout, DefaultRecordTimeout)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrParentEnded, context.Cause(ctx))
	}
	return nil
}

func newWatchdog(run Run, cfg *Config) *Watchdog {
	w := &Watchdog{
		id: run.ID, parentID: run.Parent, startedAt: truncate(run.StartedAt),
		limits: cfg.Budget.shared(), reserve: cfg.Budget.Reserve, holdCap: off(cfg.Budget.Hold),
		store: cfg.Store, recordTimeout: cfg.RecordTimeout,
		logger: cfg.Logger, onWarning: cfg.OnWarning,
		pollOnly: cfg.PollOnly, recordsParent: cfg.RecordInterrupts,
		observeOnly: cfg.ObserveOnly, onSignal: cfg.OnSignal,
	}
	if cfg.Budget.heedsSignals() || cfg.OnSignal != nil || cfg.Keeper != nil {
		w.pulse, w.seen.Signs = &pulse{}, &verdict.Signs{}
	}
	if w.recordTimeout == 0 {
		w.recordTimeout = DefaultRecordTimeout
	}
	w.item.Owner = w
	return w
}

// findWindow reads the window that the run is in and, where asked to, resumes a cancelled one. It talks to the store on
// the caller's goroutine, for at most the record timeout.
func (w *Watchdog) findWindow(ctx context.Context, cfg *Config, resume bool) (window, error) {
	if !w.instant() {
		var cancel context.CancelFunc
		ctx, cancel = timeout(ctx, cfg.Clock, w.recordTimeout)
		defer cancel()
	}
	found, err := w.readWindow(ctx)
	if err != nil || !resume || found.stop == nil {
		return found, err
	}
	w.startedAt = found.startedAt
	if err := w.store.Append(ctx, w.resumeEvent(now(cfg.Clock))); err != nil {
		return window{}, fmt.Errorf("append resume event: %w", err)
	}
	return w.readWindow(ctx)
}

func (w *Watchdog) readWindow(ctx context.Context) (window, error) {
	events, err := w.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return window{}, fmt.Errorf("read events of run %s: %w", w.id, err)
	}
	all, err := foldEvents(events)
	if err != nil {
		return window{}, err
	}
	return all.latest(w.startedAt), nil
}

// resumeEvent opens the window after the one that w is in. Its name is that window's, so that it has one successor whoever resumes.
func (w *Watchdog) resumeEvent(at time.Time) Event {
	fresh := truncate(at)
	if !fresh.After(w.startedAt) {
		fresh = w.startedAt.Add(time.Microsecond)
	}
	return w.newEvent(EventResume, at, once, resumePayload{
		SessionStartedAt: stamp(fresh), PreviousStartedAt: stamp(w.startedAt), Parent: w.parentID,
	})
}

// takeUp puts the watchdog where the window stands.
func (w *Watchdog) takeUp(found window, other clock.Clock, at time.Time) {
	w.startedAt = found.startedAt
	w.clock = newRunClock(other, at, at.Sub(found.startedAt))
	w.seen.Attached = max(at.Sub(found.startedAt), 0)
	w.seen.Extended = found.extended
	w.seen.Warned = found.warnedOf(w.limits.WarnAt, verdict.Sum(w.limits.WallClock, found.extended))
	if found.stop != nil {
		w.stop = found.stop
		w.phase = ended
		w.cancel(found.stop)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.traceOf(Signal{Kind: SignalAttach, Length: w.seen.Extended, Warned: w.seen.Warned})
}

// start arms a watchdog that has not fired, and fires it if it is late.
func (w *Watchdog) start() {
	w.mu.Lock()
	if w.phase == running && w.parent != nil {
		w.stopParent = context.AfterFunc(w.parent, w.heedParent)
	}
	found := w.lookAndArm()
	w.mu.Unlock()
	w.deliver(found)
	if found.trip != nil {
		w.carryOut(found.trip)
	}
	if w.harmless() {
		w.log().Warn("watchdog has no limit and can never fire", "run", w.id)
	}
}

// harmless reports whether nothing can end the run but a hold that brings its own cap.
func (w *Watchdog) harmless() bool {
	l := w.limits
	return min(l.WallClock, l.Safety, l.Idle, l.NoProgress, w.holdCap) == NoLimit && (!l.FromFirstSign || l.FirstSign == NoLimit)
}
