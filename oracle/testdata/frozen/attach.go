package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// attach makes a watchdog, for a run that may have its end only if it is to be resumed.
func attach(ctx context.Context, run Run, cfg *Config, resume bool) (*Watchdog, error) {
	at := clocks.Now(cfg.Clock)
	cfg, run = cfg.inMemory(run, at)
	w, cfg, err := unattached(ctx, run, cfg, at)
	if err != nil {
		return nil, err
	}
	found, err := w.findOpen(ctx, cfg, resume, at)
	if err != nil {
		w.cancel(err)
		return nil, err
	}
	var fresh *resumption
	if resume && (found.Stop != nil || w.flaw(&found, at) != nil) {
		at = clocks.Now(cfg.Clock)
		fresh = w.newResumption(found, at)
		found = fold.Window{StartedAt: fresh.startedAt, OpenedBy: fresh.event.ID}
	}
	w.takeUp(found, at)
	if err := w.keep(ctx, cfg.Keeper, fresh != nil); err != nil {
		return nil, err
	}
	if opened, err := w.recordResumption(ctx, fresh); err != nil || !opened {
		w.doubtResume(err)
		w.endRunning(fresh.before()) // no longer kept; for its keeper it has ended, as before
		w.recorder.awaitSince(at, w.tellTrace())
		_ = w.Close() // what else could not be recorded is tried once more; the error counts
		if err != nil {
			return nil, err
		}
		return attach(ctx, run, cfg, resume)
	}
	if err := w.openSpend(ctx, cfg, &found); err != nil {
		_ = w.Close() // the error counts; nothing was stopped
		return nil, err
	}
	w.traceSpent(&found)
	w.attached()
	w.start()
	return w, nil
}

// attached has the silence count from now on: what the store took to answer is none.
func (w *Watchdog) attached() {
	w.mu.Lock()
	defer w.unlock()
	at := w.clock.elapsed()
	if w.phase != running || at <= w.seen.Attached {
		return
	}
	w.seen.Take(&w.limits.Limits, verdict.Signal{Kind: verdict.SignalAttached, At: at})
	w.traceAt(Signal{Kind: SignalAttached, At: at})
}

// unattached makes a watchdog that knows nothing of its events yet. It returns the config that is in force.
func unattached(ctx context.Context, run Run, cfg *Config, at time.Time) (*Watchdog, *Config, error) {
	if err := errors.Join(cfg.check(ctx, run, at), cfg.checkSpend()); err != nil {
		return nil, nil, err
	}
	cfg = cfg.inForce()
	w, err := newWatchdog(run, cfg)
	if err == nil {
		w.lineage = newLineage(run.Parent)
		w.newRunContext(ctx)
	}
	return w, cfg, err
}

// begin is New in a [handle.Fresh].
func begin(ctx context.Context, run Run, cfg *Config) (*Watchdog, error) {
	at := clocks.Now(cfg.Clock)
	run.StartedAt = at
	if err := cfg.check(ctx, run, at); err != nil {
		return nil, err
	}
	cfg = cfg.inForce()
	w, err := newWatchdog(run, cfg)
	if err != nil {
		return nil, err
	}
	w.begun(ctx, &lineage{parentID: run.Parent}, at)
	return w, nil
}

// begun has the run begin in a window of its own.
func (w *Watchdog) begun(ctx context.Context, of *lineage, at time.Time) {
	of.begins = true
	w.lineage = of
	w.newRunContext(ctx)
	w.takeUp(fold.Window{StartedAt: w.startedAt}, at)
	w.start()
}

// flaw says why the run cannot be attached to the window, but resumed after it.
func (w *Watchdog) flaw(found *fold.Window, now time.Time) error {
	switch {
	case found.Complete():
		return fmt.Errorf("%w since %s; use Resume to go on with run %s, or give new work a run of its own", ErrComplete,
			clocks.Text(found.CompletedAt), w.id)
	case found.StartedAt.Sub(now) > StartSkew:
		return fmt.Errorf("%w start: it is in the future; event %s of run %s opened a window at %s, the clock shows %s; "+
			"check the clocks of both hosts, or use Resume to open another", ErrInvalid, found.OpenedBy, w.id,
			clocks.Text(found.StartedAt), clocks.Text(now))
	}
	return nil
}

// A resumption opens the window after that of a run that was cancelled or complete. It is recorded when the run is kept
// already, so that after an error there is no fresh window that nobody runs.
type resumption struct {
	previous  fold.Window
	startedAt time.Time
	event     Event
}

// before is the cause of the end of the window before.
func (r *resumption) before() error {
	if r.previous.Stop == nil {
		return ErrComplete
	}
	return stopOf(r.previous.Stop, r.event.AggregateID)
}

func (w *Watchdog) newResumption(ended fold.Window, at time.Time) *resumption {
	w.startedAt = ended.StartedAt
	startedAt := ended.NextStart(at)
	return &resumption{ended, startedAt, w.resumeEvent(at, startedAt)}
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
	found, err := w.readWindow(ctx, fresh.previous.StartedAt)
	if err != nil {
		return false, fmt.Errorf("the run is resumed; attach to it: %w", err)
	}
	return found.StartedAt.Equal(fresh.startedAt), nil
}

// doubtResume has the keeper look up whether the window was opened before it writes how the run has ended.
func (w *Watchdog) doubtResume(err error) {
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.extras().resumeInDoubt = true
	}
}

func newWatchdog(run Run, cfg *Config) (*Watchdog, error) {
	classes, err := cfg.Kinds.classes()
	if err != nil {
		return nil, err
	}
	made := &struct {
		Watchdog
		tree
	}{Watchdog: Watchdog{
		id: run.ID, startedAt: record.Truncate(run.StartedAt), trace: newTrace(cfg.OnSignal),
		clock: runClock{other: cfg.Clock}, settings: cfg.settings(classes),
	}}
	w := &made.Watchdog
	w.mu = &made.tree
	w.recorder.configure(cfg)
	w.setUp(cfg.hasSignals(), len(cfg.Scopes) > 0)
	return w, nil
}

// setUp makes what the run needs from the beginning.
func (w *Watchdog) setUp(heeds, shares bool) {
	if heeds {
		w.heed()
	}
	w.item.Owner, w.recorder.run = w, w
	if shares || len(w.limits.Counts) > 0 {
		w.seen.Spend = w.accountOf().Spend
	}
}

// findOpen reads the window that the run is in, which must be one to attach to, or to resume after.
func (w *Watchdog) findOpen(ctx context.Context, cfg *Config, resume bool, at time.Time) (fold.Window, error) {
	found, err := w.findWindow(ctx)
	switch {
	case err != nil:
		return found, err
	case resume:
		return found, w.checkFailing(ctx, &found, cfg.MaxStops)
	}
	return found, w.flaw(&found, at)
}

// checkFailing returns an error if guards have stopped the run too often in a row for another window. It reads all
// events of the run, and only where the host limits that.
func (w *Watchdog) checkFailing(ctx context.Context, found *fold.Window, most int) error {
	if most == 0 || most == NoLimit || found.Stop == nil {
		return nil
	}
	ctx, cancel := w.attachContext(ctx)
	defer cancel()
	h, err := w.readWhole(ctx)
	if err != nil {
		return fmt.Errorf("count the stops of run %s: %w", w.id, err)
	}
	if n := h.StopsInRow(found.StartedAt); n >= most {
		return fmt.Errorf("%w: run %s was stopped %d times in a row, at last by %s; find out why it fails, and resume it "+
			"with a larger MaxStops than %d", ErrFailing, w.id, n, codeOf(found.Stop.Reason), most)
	}
	return nil
}

// findWindow reads the window that the run is in.
func (w *Watchdog) findWindow(ctx context.Context) (fold.Window, error) {
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

// start arms a watchdog that has not fired, and fires it if it is late.
func (w *Watchdog) start() {
	w.followParent()
	w.mu.Lock()
	if w.outer != nil {
		w.clock.holdBegin()
	}
	found := w.lookAndArm()
	w.clock.release()
	w.mu.Unlock()
	w.doFound(found)
	w.deliverTrace() // differs: the pause of a layer that begins in one is told at once
	switch {
	case w.disabled && w.outer == nil:
		w.log().Info("watchdog is disabled and does not guard the run", "run", w.id)
	case !w.disabled && w.neverFires():
		w.log().Warn("watchdog has no limit and can never fire", "run", w.id)
	}
}

// neverFires reports whether nothing can end the run but a hold that brings its own cap.
func (w *Watchdog) neverFires() bool {
	l := w.limits
	return min(l.WallClock, l.Safety, l.Idle, l.NoProgress,
		w.limits.holdCap) == NoLimit && (!l.FromFirstSign || l.FirstSign == NoLimit)
}
