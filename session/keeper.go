package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Keeper keeps the rows of a process's live runs. Give it to them as their [watchdog.Config].Keeper, and call
// [Keeper.Run] in a goroutine beside them: a keeper that does not run keeps no run. It writes the rows of all runs in
// one statement, each about ten times in its threshold. A signal of a run never waits for it. A run that was cancelled
// from elsewhere ends with that cancel as its cause. All methods are safe for concurrent use.
//
// If one process has several watchdogs of one run, the latest is kept.
type Keeper struct {
	cfg       *KeeperConfig
	roster    *roster
	rows      *rowBuilder
	leases    *leaseKeeper
	outage    *outage
	flusher   *flusher
	queue     *endQueue
	syncer    *syncer
	comparer  *comparer
	running   *gate
	toldShort sync.Once // that a threshold of the host's is shorter than a run's limits
}

// NewKeeper makes a keeper. It wraps [watchdog.ErrInvalid] if the config cannot be used.
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	roster := newRoster(&cfg)
	rows, down := &rowBuilder{&cfg, allowedBy}, &outage{roster: roster}
	leases, ends := &leaseKeeper{roster, down, make(chan struct{}, 1), make(chan struct{}, 1)}, &endWriter{roster}
	return &Keeper{
		cfg: &cfg, roster: roster, rows: rows, leases: leases, outage: down,
		flusher: &flusher{roster: roster, rows: rows, leases: leases, ends: ends, outage: down},
		queue:   &endQueue{ends: ends}, syncer: &syncer{roster, rows, leases},
		comparer: &comparer{roster: roster}, running: newGate(),
	}, nil
}

// Start implements [watchdog.Keeper]: the start in the run's row, if that is active. The error wraps what the store's
// Session returns, but for [ErrNotFound].
func (k *Keeper) Start(ctx context.Context, runID string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	row, err := k.cfg.Store.Session(ctx, runID)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && row.Status != Active:
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read when run %s began: %w", runID, err)
	}
	return row.StartedAt, nil
}

// Keep implements [watchdog.Keeper]. It begins an attempt in the run's row. An attempt that is still active there was
// lost, unless this keeper keeps it. It waits for [Keeper.Run] to begin, and returns an error if that does not within
// the record timeout: a sweeper would end a run whose keeper does not run.
func (k *Keeper) Keep(ctx context.Context, w *watchdog.Watchdog) (_ watchdog.Attempt, err error) {
	threshold, err := k.cfg.runThreshold(w.ID())
	if err != nil {
		return watchdog.Attempt{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	if !k.running.wait(ctx) {
		return watchdog.Attempt{}, fmt.Errorf("the Keeper does not run, so that sweepers would take run %s for lost: "+
			"call its Run in a goroutine before New, and end it after Close", w.ID())
	}
	k.roster.beginAttaching(w.ID())
	defer func() { k.roster.endAttaching(w.ID(), err != nil) }()
	earlier := k.roster.kept(w.ID())
	row := k.rows.attached(w, threshold)
	made, err := k.leases.attachPatiently(ctx, row)
	if err != nil {
		return watchdog.Attempt{}, fmt.Errorf("begin an attempt of run %s: %w", w.ID(), err)
	}
	before, after := made.before, made.after
	k.roster.add(&keptRun{
		run: w, attempt: after.Attempt, written: made.at, state: after.State, own: threshold, allowance: row.Allowance,
		threshold: min(cmp.Or(threshold, k.cfg.Threshold), k.cfg.Threshold),
	}, made.under)
	k.warnOfThreshold(w, threshold)
	lost := before.Attempt > 0 && before.Status == Active && (earlier == nil || earlier.attempt != before.Attempt)
	stopped := before.Status == Cancelled || before.Status == Finished && before.Reason != ""
	return watchdog.Attempt{Number: after.Attempt, Lost: lost, Stopped: stopped}, nil
}

// warnOfThreshold has the log say, once, that the host has runs ended before their own limits do it.
func (k *Keeper) warnOfThreshold(w *watchdog.Watchdog, own time.Duration) {
	allowed := k.rows.allowance(w, 0)
	if own == 0 || allowed <= own {
		return
	}
	k.toldShort.Do(func() {
		k.cfg.logger().Warn(
			"RunThreshold is shorter than what the limits of a run allow: sweepers end the run before these do",
			"run", w.ID(), "threshold", own, "allowed", allowed)
	})
}

// Ended implements [watchdog.Keeper]. It writes the run's end into its row at once, in one statement with those of
// other runs that end at the same time, and returns when that is done. What fails is written by a later flush, and so
// is everything while the store is known to fail: then it does not wait. It does nothing for a run that is not
// kept, nor for one whose cancel is not recorded yet.
func (k *Keeper) Ended(ctx context.Context, w *watchdog.Watchdog) {
	r := k.roster.kept(w.ID())
	if r == nil || r.run != w || w.Context().Err() == nil || k.outage.isDown() {
		return
	}
	end := k.rows.ending(r)
	if end.Status == Cancelled && !handle.Of(w.Context()).Recorded(false) {
		return
	}
	k.queue.write(ctx, end)
}

// Refresh has the row of a run written at the next look, and not only with its next sign of life: what RunState says of
// it has changed. It does not wait for the store. It does nothing for a run that is not kept.
func (k *Keeper) Refresh(runID string) { k.roster.refresh(runID) }

// Live returns how many runs are kept.
func (k *Keeper) Live() int { return k.roster.live() }

// Run keeps the lease and the rows until ctx ends. It then writes what there is once more, tries that again while the
// store fails, for at most twice the record timeout, and gives the lease up. End it after the watchdogs are closed, so
// that their rows say so. If the rows of some do not say so by then, Run returns an error with their number: a sweeper
// finds that their process is dead, cancels them, and may have them resumed, although their work was done. Otherwise it
// returns nil. A store that fails before is called again at the next look; the log says when that starts and ends.
// Without Run the process is taken for dead after three promises.
func (k *Keeper) Run(ctx context.Context) error {
	k.running.open()
	defer k.running.shut()
	endRenewing := k.leases.startRenewing(context.WithoutCancel(ctx))
	defer endRenewing()
	var own sync.WaitGroup
	defer own.Wait()
	own.Go(func() { (&poller{roster: k.roster, ready: make(chan struct{}, 1)}).watch(ctx) })
	own.Go(func() { k.syncer.loop(ctx) })
	tick, compare := time.NewTicker(k.cfg.Pace), time.NewTicker(verdict.CompareAfter(k.cfg.Promise))
	defer tick.Stop()
	defer compare.Stop()
	for {
		work := k.nextWork(ctx, tick.C, compare.C)
		if ctx.Err() != nil {
			return k.finish(context.WithoutCancel(ctx), endRenewing)
		}
		work(ctx)
	}
}

// nextWork waits for what there is to do next. If both are due after a call that took long, it is the comparison, and
// not one of them at random.
func (k *Keeper) nextWork(ctx context.Context, tick, compare <-chan time.Time) func(context.Context) {
	select {
	case <-compare:
		return k.comparer.compare
	default:
	}
	select {
	case <-tick:
	case <-k.leases.expired:
	case <-compare:
		return k.comparer.compare
	case <-ctx.Done():
	}
	return k.flusher.flush
}

// finish writes what there is once more, and gives the lease up, which is renewed until then: the process lives. It
// takes at most twice the record timeout.
func (k *Keeper) finish(ctx context.Context, endRenewing func()) error {
	ctx, cancel := context.WithTimeout(ctx, 2*k.cfg.RecordTimeout)
	defer cancel()
	err := k.flusher.writeLast(ctx)
	endRenewing()
	k.leases.end(ctx)
	return err
}

var _ watchdog.Keeper = (*Keeper)(nil)

// A TakeoverError is the cause of the context of a run that another process has taken over: it attached to the run
// while this one ran it. It wraps no other error.
type TakeoverError struct {
	RunID string
	// Attempt is the attempt of this process. By is the later one, and Host where that runs, as its row says.
	Attempt, By int
	Host        string
}

// Error says who took the run over.
func (e *TakeoverError) Error() string {
	return fmt.Sprintf("run %s was taken over: attempt %d was followed by attempt %d on host %q",
		e.RunID, e.Attempt, e.By, e.Host)
}
