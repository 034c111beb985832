package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// New attaches to a run: it reads the run's events, continues its window where it stands, and guards the run until
// [Watchdog.Close]. If the window has its cancel event already, the watchdog is fired from the start, with the stored
// stop; if its budget is used up, it fires before New returns.
//
// A run that is complete is not watched any more: New wraps [ErrComplete].
//
// Without a Store in the [Config] the run is kept in memory and nobody finds it again: every New begins a run, whose ID
// and start can be left out.
//
// The context is the run's parent: [Watchdog.Context] ends when it ends, which is not a stop. A parent of a type of the
// host's own costs a goroutine until the run ends, as with package context, unless it has the method AfterFunc that
// [context.AfterFunc] asks for. New wraps [ErrInvalid],
// [ErrComplete], [ErrParentEnded] or [ErrUnreadableEvent], or the store's error if the events cannot be read, because
// then New cannot tell whether the run may continue. After an error nothing is guarded and nothing was written, but for
// the start of a run without [Run].StartedAt.
func New(ctx context.Context, run Run, cfg Config) (*Watchdog, error) {
	if parent, ok := ctx.(handle.Fresh); ok {
		return cfg.begin(parent.Context, run)
	}
	w, err := attach(ctx, run, &cfg, false)
	if err != nil {
		return nil, fmt.Errorf("attach watchdog: %w", err)
	}
	return w, nil
}

// Resume is [New] for when the user asks to go on with a run that a guard cancelled or that is complete. It opens a
// fresh window at this moment, recorded as [event.Resume] before Resume returns, so that the run does not stop at once
// for its old window. [Watchdog.StartedAt] is the new start, for the host to persist; a host that crashes before that
// still attaches to the new window. A run that has not ended so continues its window, as with New. If several processes
// resume at once, all get the same window. Without a Store in the [Config] it has nothing to go on with and is New.
//
// Resume returns the errors of New, [ErrFailing] as [Config].MaxStops says, and the store's error if the event cannot
// be recorded. After an error the run is still cancelled, unless the text says that it is resumed or the store was too
// slow to answer and keeps the event after all.
func Resume(ctx context.Context, run Run, cfg Config) (*Watchdog, error) {
	w, err := attach(ctx, run, &cfg, true)
	if err != nil {
		return nil, fmt.Errorf("resume run: %w", err)
	}
	return w, nil
}

// attach makes a watchdog, for a run that may have its end only if it is to be resumed.
func attach(ctx context.Context, named Run, cfg *Config, resume bool) (*Watchdog, error) {
	at := clocks.Now(cfg.Clock)
	cfg, named = cfg.inMemory(named, at)
	w, cfg, err := unattached(ctx, named, cfg, at)
	if err != nil {
		return nil, err
	}
	r := &w.r
	found, err := r.findOpen(ctx, cfg, resume, at)
	if err != nil {
		r.Discard(err)
		return nil, err
	}
	var fresh *resumption
	if resume && (found.Stop != nil || flawOf(r.Node.Run, &found, at) != nil) {
		at = clocks.Now(cfg.Clock)
		r.Node.StartedAt = found.StartedAt
		startedAt := found.NextStart(at)
		fresh = &resumption{found, startedAt, machine.Moment{Name: &r.Node.Name, At: at}.Resume(startedAt)}
		found = fold.Window{StartedAt: startedAt, OpenedBy: fresh.event.ID}
	}
	if found.Before != nil {
		r.warnOfLaterStart(&found, at)
	}
	r.Tree.TakeUp(&found, at)
	if err := w.keep(ctx, cfg.Keeper, fresh != nil); err != nil {
		return nil, err
	}
	if opened, err := r.recordResumption(ctx, fresh); err != nil || !opened {
		if err != nil { // its keeper looks up whether the window was opened, before it writes how the run has ended
			r.Locked(func() { r.extras().resumeInDoubt = true })
		}
		r.End(fresh.before()) // no longer kept; for its keeper it has ended, as before
		r.TellSince(at)
		_ = w.Close() // what else could not be recorded is tried once more; the error counts
		if err != nil {
			return nil, err
		}
		return attach(ctx, named, cfg, resume)
	}
	r.start()
	return w, nil
}

// unattached makes a watchdog that knows nothing of its events yet. It returns the config that is in force.
func unattached(ctx context.Context, named Run, cfg *Config, at time.Time) (*Watchdog, *Config, error) {
	named, err := cfg.started(ctx, named, at)
	if err != nil {
		return nil, nil, err
	}
	if err := cfg.check(ctx, named, at); err != nil {
		return nil, nil, err
	}
	cfg = cfg.inForce()
	w, err := newWatchdog(ctx, named, cfg)
	return w, cfg, err
}

// begin is New for the other packages of this module, which guard a command in a run of its own: the window begins now
// and shares nothing with any other, whatever clocks say. Nothing is read and nothing is spent, and without a Store
// nothing is kept.
func (cfg *Config) begin(parent context.Context, run Run) (*Watchdog, error) {
	if cfg.Store == nil {
		cfg.Store = nowhere{}
	}
	at := clocks.Now(cfg.Clock)
	run.StartedAt = at
	if err := cfg.check(parent, run, at); err != nil {
		return nil, err
	}
	w, err := newWatchdog(parent, run, cfg.inForce())
	if err != nil {
		return nil, err
	}
	w.r.Node.Begins = true
	w.r.Tree.TakeUp(&fold.Window{StartedAt: w.r.Node.StartedAt}, at)
	w.r.start()
	return w, nil
}

// flawOf says why the run cannot be attached to the window, but resumed after it.
func flawOf(runID string, found *fold.Window, now time.Time) error {
	switch {
	case found.Complete():
		return fmt.Errorf("%w since %s; use Resume to go on with run %s, or give new work a run of its own", ErrComplete,
			clocks.Text(found.CompletedAt), runID)
	case found.StartedAt.Sub(now) > StartSkew:
		return fmt.Errorf("%w start: it is in the future; event %s of run %s opened a window at %s, the clock shows %s; "+
			"check the clocks of both hosts, or use Resume to open another", ErrInvalid, found.OpenedBy, runID,
			clocks.Text(found.StartedAt), clocks.Text(now))
	}
	return nil
}

// warnOfLaterStart has the log say that the host passed a later start than its run has in the store.
func (r *run) warnOfLaterStart(found *fold.Window, at time.Time) {
	before := found.Before
	log := r.log().With("run", r.Node.Run, "start", found.StartedAt, "earlier", before.StartedAt)
	r.LogSince(at, func() {
		if before.Stop == nil {
			log.Warn("a run begins again: the host passes a later start than the store has; " +
				"leave StartedAt out, or pass the first one at each attach")
			return
		}
		log.Warn("a run that was stopped begins again: the host passes a start after its stop; "+
			"leave StartedAt out, and call Resume to go on with a run that was stopped", "stop", codeOf(before.Stop.Reason))
	})
}

// A resumption opens the window after that of a run that was cancelled or complete. It is recorded when the run is kept
// already, so that after an error there is no fresh window that nobody runs.
type resumption struct {
	previous  fold.Window
	startedAt time.Time
	event     event.Event
}

// before is how the window before ended.
func (p *resumption) before() error {
	if p.previous.Stop == nil {
		return ErrComplete
	}
	return stopOf(p.previous.Stop, p.event.AggregateID)
}

// recordResumption appends the event and reports whether the window that it opened is this one: another process may
// have resumed the run meanwhile, at another time. Without a resumption there is nothing to open.
func (r *run) recordResumption(ctx context.Context, fresh *resumption) (opened bool, err error) {
	if fresh == nil {
		return true, nil
	}
	return journal.Ask(ctx, &r.Tree.Place, func(ctx context.Context) (bool, error) {
		if err := r.Tree.Store.Append(ctx, fresh.event); err != nil {
			return false, fmt.Errorf("append resume event: %w", err)
		}
		found, err := r.Record.ReadWindow(ctx, fresh.previous.StartedAt)
		if err != nil {
			return false, fmt.Errorf("the run is resumed; attach to it: %w", err)
		}
		return found.StartedAt.Equal(fresh.startedAt), nil
	})
}

// newWatchdog makes the watchdog of a session. Its context is hooked to the parent by start.
func newWatchdog(ctx context.Context, named Run, cfg *Config) (*Watchdog, error) {
	classes, err := cfg.Kinds.classes()
	if err != nil {
		return nil, err
	}
	made := &struct {
		Watchdog
		driver.Tree
	}{}
	r, t := &made.r, &made.Tree
	r.settings = cfg.settings(classes)
	t.Init(ctx, cfg.place(), &r.Run, r, machine.Name{
		Run: named.ID, Parent: named.Parent, StartedAt: event.Truncate(named.StartedAt),
	})
	r.Node.Rules = machine.Rules{
		Limits: &r.limits.Limits, ObserveOnly: cfg.ObserveOnly, Disabled: cfg.Disabled, Records: cfg.RecordInterrupts,
	}
	heeds := !cfg.Disabled && cfg.Budget.heedsSignals() || cfg.Keeper != nil
	r.setUp(heeds)
	return &made.Watchdog, nil
}

// setUp makes what the run needs from the beginning.
func (r *run) setUp(heeds bool) {
	if heeds {
		r.Node.Heed()
	}
	if len(r.limits.Counts) > 0 {
		a := r.accountOf()
		r.Node.Count(&a.Account)
	}
}

// findOpen reads the window that the run is in, which must be one to attach to, or to resume after.
func (r *run) findOpen(ctx context.Context, cfg *Config, resume bool, at time.Time) (fold.Window, error) {
	found, err := journal.Ask(ctx, &r.Tree.Place, func(ctx context.Context) (fold.Window, error) {
		return r.Record.ReadWindow(ctx, r.Node.StartedAt)
	})
	switch {
	case err != nil:
		return found, err
	case resume:
		return found, r.checkFailing(ctx, &found, cfg.MaxStops)
	}
	return found, flawOf(r.Node.Run, &found, at)
}

// checkFailing returns an error if guards have stopped the run too often in a row for another window. It reads all
// events of the run, and only where the host limits that.
func (r *run) checkFailing(ctx context.Context, found *fold.Window, most int) error {
	if most == 0 || int64(most) == NoLimit || found.Stop == nil {
		return nil
	}
	h, err := journal.Ask(ctx, &r.Tree.Place, r.Record.ReadWhole)
	if err != nil {
		return fmt.Errorf("count the stops of run %s: %w", r.Node.Run, err)
	}
	if n := h.StopsInRow(found.StartedAt); n >= most {
		return fmt.Errorf("%w: run %s was stopped %d times in a row, at last by %s; find out why it fails, and resume it "+
			"with a larger MaxStops than %d", ErrFailing, r.Node.Run, n, codeOf(found.Stop.Reason), most)
	}
	return nil
}

// start arms a session that has not fired, and fires it if it is late.
func (r *run) start() {
	began := r.Tree.Start()
	if r.Node.Disabled {
		r.LogSince(began, func() {
			r.log().Info("watchdog is disabled and does not guard the run", "run", r.Node.Run)
		})
	}
}
