package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// The defaults of a [KeeperConfig].
const (
	DefaultThreshold = 10 * time.Minute
	DefaultPace      = time.Second
	DefaultPoll      = 2 * time.Second
	DefaultPromise   = 10 * time.Second
)

// The shortest and the longest [KeeperConfig].Promise. A pass of a sweeper that finds a dead process waits for several
// promises, and every session that stalls meanwhile waits with it.
const (
	ShortestPromise = time.Second
	LongestPromise  = 5 * time.Minute
)

// shortestLockPause is the first pause before an attach to a row that is locked is tried again. The pauses double, up
// to [LockWait].
const shortestLockPause = LockWait / 8

// minFlushes is the smallest number of flushes in a threshold. With fewer a row could be too far behind its run for a
// sweeper that finds the lease expired.
const minFlushes = 4

// A KeeperConfig says how rows are kept. [NewKeeper] copies it.
type KeeperConfig struct {
	// Store keeps the rows. It must be set.
	Store Store
	// Host names this process in its rows. Empty means the machine's host name.
	Host string
	// Threshold is the silence after which the sweepers of this database end a session. A row is never more than a
	// tenth of it behind its run for longer than Pace. Zero means [DefaultThreshold].
	Threshold time.Duration
	// RunThreshold returns the threshold that the row of a run carries, for sweepers to judge the run by instead of
	// their own: a duration, [watchdog.NoLimit] for ever, or 0 for none. Nil means 0 for every run. While this process
	// lives, a run without one may be silent for as long as its own Idle and NoProgress allow, whatever the sweepers'
	// threshold is: see [Session].Allowance. One that is shorter than that wins; the first is in the log.
	RunThreshold func(runID string) time.Duration
	// RunState adds to what the row of a run says what its watchdog does not know, such as limits that something else
	// keeps. It is called for each write of a row: it must be quick. Nil adds nothing.
	RunState func(w *watchdog.Watchdog, state *State)
	// Promise is the [Lease].Promise of this process, from [ShortestPromise] to [LongestPromise]. A process that cannot
	// write to the database for three promises is taken for dead, and its runs can be cancelled. Zero means
	// [DefaultPromise].
	Promise time.Duration
	// Pace is the time from one look at the runs to the next. It is at most a quarter of each threshold. Runs that have
	// had nothing new for a minute are looked at with each renewal of the lease, three times in each promise or in
	// [DefaultPromise] if that is shorter; the row of one that ends by itself meanwhile says so then. Zero means
	// [DefaultPace].
	Pace time.Duration
	// Poll is the time from one poll of the store for cancels to the next. A store that is a [Listener] is polled
	// thirty times less often while it listens. Zero means [DefaultPoll].
	Poll time.Duration
	// RecordTimeout limits each call of the store. It is also how long the attach of a run waits for a row that another
	// transaction has locked. Zero means [watchdog.DefaultRecordTimeout].
	RecordTimeout time.Duration
	// Logger gets what no call returns. Nil means [slog.Default].
	Logger *slog.Logger
}

// A Keeper keeps the rows of a process's live runs. Give it to them as their [watchdog.Config].Keeper, and run
// [Keeper.Run] beside them. It writes the rows of all runs in one statement, each about ten times in its threshold. A
// signal of a run never waits for it. A run that was cancelled from elsewhere ends with that cancel as its cause. All
// methods are safe for concurrent use.
//
// If one process has several watchdogs of one run, the latest is kept.
type Keeper struct {
	cfg       KeeperConfig
	startedAt time.Time
	wake      chan struct{} // has room for one: a sync was requested
	soon      chan struct{} // has room for one: a flush was requested
	beginning chan struct{} // has room for one: whoever fills it may begin a lease

	// The room of the last snapshot, for the next. Only the flush that is under way uses it.
	copies []copiedRun

	mu        sync.Mutex
	lookedAt  time.Duration   // when all runs were looked at, dormant ones too
	held      *heldLease      // nil before the first run, and once it has expired
	own       map[string]bool // the leases that it has, and had
	runs      map[string]*keptRun
	awake     map[*keptRun]struct{} // those of runs that are not dormant
	attaching map[string]int        // the attaches to each run that have not returned
	strays    map[AttemptID]bool    // in rows of this lease, and not kept
	toSync    map[string]bool       // the runs that are to read their events for a cancel
	closing   []closing             // whose ends are to be written now
	ending    bool                  // a goroutine writes them
	toldShort bool                  // the log was told that a threshold of the host's is shorter than a run's limits
	outage    outage

	allowed func(w *watchdog.Watchdog) time.Duration // by the run's own limits of silence
}

// A keptRun is a run whose row is kept. The keeper's mutex guards what changes.
type keptRun struct {
	run       *watchdog.Watchdog
	attempt   int
	threshold time.Duration
	// written is the last activity that the row shows, or the attach, by the clock of the lease. Quiet tells that the row
	// may say that the run is quiet.
	written    time.Duration
	quiet      bool
	tried      time.Duration   // the latest activity that the row may show, because an answer was lost
	dormant    bool            // it had nothing new for long, and there is no reason to look at it soon
	own        time.Duration   // the threshold of the host's for this run, or 0
	allowance  time.Duration   // that the row has
	state      json.RawMessage // that the row has
	recheck    bool            // the next flush writes the row, such as to learn whether it is still this attempt's
	syncFailed bool            // at the last try
	skips      skips
}

// NewKeeper makes a keeper. It wraps [watchdog.ErrInvalid] if the config cannot be used.
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	switch {
	case cfg.Store == nil:
		return nil, fmt.Errorf("%w keeper config: set Store", watchdog.ErrInvalid)
	case min(cfg.Threshold, cfg.Pace, cfg.Poll, cfg.RecordTimeout, cfg.Promise) < 0:
		return nil, fmt.Errorf("%w keeper config: a length is negative; use a positive duration, or 0 for the default",
			watchdog.ErrInvalid)
	}
	if cfg.Host == "" {
		cfg.Host, _ = os.Hostname() // the rows of a machine without a name have none
	}
	cfg.Threshold = cmp.Or(cfg.Threshold, DefaultThreshold)
	cfg.Pace, cfg.Poll = cmp.Or(cfg.Pace, DefaultPace), cmp.Or(cfg.Poll, DefaultPoll)
	cfg.RecordTimeout = cmp.Or(cfg.RecordTimeout, watchdog.DefaultRecordTimeout)
	cfg.Promise = cmp.Or(cfg.Promise, DefaultPromise)
	if cfg.Promise < ShortestPromise || cfg.Promise > LongestPromise {
		return nil, fmt.Errorf("%w keeper config: Promise is %v; use at least %v and at most %v",
			watchdog.ErrInvalid, cfg.Promise, ShortestPromise, LongestPromise)
	}
	if cfg.MaxPace() < cfg.Pace {
		return nil, fmt.Errorf("%w keeper config: Pace is %v, and Threshold only %v; use at most a quarter of it",
			watchdog.ErrInvalid, cfg.Pace, cfg.Threshold)
	}
	return &Keeper{
		cfg: cfg, startedAt: time.Now(), wake: make(chan struct{}, 1), soon: make(chan struct{}, 1),
		beginning: make(chan struct{}, 1),
		own:       map[string]bool{}, runs: map[string]*keptRun{}, awake: map[*keptRun]struct{}{},
		attaching: map[string]int{},
		strays:    map[AttemptID]bool{}, toSync: map[string]bool{}, allowed: allowedBy,
	}, nil
}

// MaxPace returns the longest Pace that goes with the Threshold: [NewKeeper] refuses a longer one, with which the row
// of a live run could seem stalled.
func (c KeeperConfig) MaxPace() time.Duration {
	return cmp.Or(c.Threshold, DefaultThreshold) / minFlushes
}

// Keep implements [watchdog.Keeper]. It begins an attempt in the run's row. An attempt that is still active there was
// lost, unless this keeper keeps it.
func (k *Keeper) Keep(ctx context.Context, w *watchdog.Watchdog) (_ watchdog.Attempt, err error) {
	threshold, err := k.runThreshold(w.ID())
	if err != nil {
		return watchdog.Attempt{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	k.beginAttaching(w.ID())
	defer func() { k.endAttaching(w.ID(), err != nil) }()
	earlier := k.kept(w.ID())
	row := k.rowOf(w, threshold)
	before, after, made, err := k.attachPatiently(ctx, row)
	if err != nil {
		return watchdog.Attempt{}, fmt.Errorf("begin an attempt of run %s: %w", w.ID(), err)
	}
	k.add(&keptRun{
		run: w, attempt: after.Attempt, written: made.at, state: after.State, own: threshold, allowance: row.Allowance,
		threshold: min(cmp.Or(threshold, k.cfg.Threshold), k.cfg.Threshold),
		recheck:   restoreLoop(w, before), // the attach has cleared it in the row
	}, made.under)
	k.warnOfThreshold(w, threshold)
	lost := before.Attempt > 0 && before.Status == Active && (earlier == nil || earlier.attempt != before.Attempt)
	stopped := before.Status == Cancelled || before.Status == Finished && before.Reason != ""
	return watchdog.Attempt{Number: after.Attempt, Lost: lost, Stopped: stopped}, nil
}

// rowOf returns the row of a run that attaches.
func (k *Keeper) rowOf(w *watchdog.Watchdog, threshold time.Duration) Session {
	allowance := k.allowance(w, threshold)
	return Session{
		RunID: w.ID(), Parent: w.Parent(), Threshold: k.thresholdBeside(allowance, threshold), Allowance: allowance,
		StartedAt: w.StartedAt(), Host: k.cfg.Host, State: k.stateOf(w),
	}
}

func (k *Keeper) beginAttaching(runID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.attaching[runID]++
}

// endAttaching has an earlier attempt of this process find out what became of an attach that failed, and the run look
// for a cancel that it was told of meanwhile.
func (k *Keeper) endAttaching(runID string, failed bool) {
	k.mu.Lock()
	if k.attaching[runID]--; k.attaching[runID] == 0 {
		delete(k.attaching, runID)
	}
	told := k.toSync[runID]
	k.mu.Unlock()
	if failed || told {
		k.requestSync(runID)
	}
}

func (k *Keeper) isAttaching(runID string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.attaching[runID] > 0
}

// A making is when a row was made, and under which lease.
type making struct {
	under *heldLease
	at    time.Duration
}

// attachPatiently attaches, and tries again until ctx ends while another transaction has locked the row: a run that
// begins can wait, and is not to fail for it.
func (k *Keeper) attachPatiently(ctx context.Context, s Session) (before, after Session, m making, err error) {
	var locked error
	for tries := 0; ; tries++ {
		before, after, m, err = k.attach(ctx, s)
		switch {
		case errors.Is(err, ErrLocked):
			locked = err
		case err != nil && ctx.Err() != nil && locked != nil: // the last try was cut short
			return before, after, m, errors.Join(locked, err)
		default:
			return before, after, m, err
		}
		select {
		case <-time.After(verdict.Doubled(shortestLockPause, LockWait, tries)):
		case <-ctx.Done():
			return before, after, m, errors.Join(locked, context.Cause(ctx))
		}
	}
}

// attach writes the row of an attempt under the lease of this process. A lease that turns out to have expired is
// followed by another, once.
func (k *Keeper) attach(ctx context.Context, s Session) (before, after Session, m making, err error) {
	for range 2 {
		if m.under, err = k.lease(ctx); err != nil {
			break
		}
		m.at, s.Lease = m.under.now(), m.under.id
		before, after, err = k.cfg.Store.Attach(ctx, s)
		if !errors.Is(k.lost(m.under, err), ErrLeaseExpired) {
			break
		}
	}
	return before, after, m, err
}

// runThreshold returns the threshold that a run's row carries.
func (k *Keeper) runThreshold(runID string) (time.Duration, error) {
	if k.cfg.RunThreshold == nil {
		return 0, nil
	}
	threshold := k.cfg.RunThreshold(runID)
	if threshold < 0 || threshold > 0 && (KeeperConfig{Threshold: threshold}).MaxPace() < k.cfg.Pace {
		return 0, fmt.Errorf("%w keeper config: RunThreshold says %v for run %s; "+
			"use 0, or at least four times the Pace, which is %v", watchdog.ErrInvalid, threshold, runID, k.cfg.Pace)
	}
	return threshold, nil
}

// add keeps a run, unless a later attempt at it is kept already. Its row is in a lease, which may have expired since.
func (k *Keeper) add(r *keptRun, l *heldLease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.recheck = r.recheck || k.held != l
	if there := k.runs[r.run.ID()]; there == nil || there.attempt <= r.attempt {
		delete(k.awake, there)
		k.runs[r.run.ID()], k.awake[r] = r, struct{}{}
	}
}

// drop keeps a run no longer.
func (k *Keeper) drop(r *keptRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs[r.run.ID()] == r {
		delete(k.runs, r.run.ID())
		delete(k.awake, r)
	}
}

// Live returns how many runs are kept.
func (k *Keeper) Live() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.runs)
}

func (k *Keeper) kept(runID string) *keptRun {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[runID]
}

// now returns the time since the keeper was made.
func (k *Keeper) now() time.Duration { return time.Since(k.startedAt) }

// Run keeps the lease and the rows until ctx ends. It then writes what there is once more, tries that again while the
// store fails, for at most twice the record timeout, and gives the lease up. End it after the watchdogs are closed, so
// that their rows say so. If the rows of some do not say so by then, Run returns an error with their number: a sweeper
// finds that their process is dead, cancels them, and may have them resumed, although their work was done. Otherwise it
// returns nil. A store that fails before is called again at the next look; the log says when that starts and ends.
// Without Run the process is taken for dead after three promises.
func (k *Keeper) Run(ctx context.Context) error {
	endRenewing := k.startRenewing(context.WithoutCancel(ctx))
	defer endRenewing()
	var own sync.WaitGroup
	defer own.Wait()
	own.Go(func() { k.watchCancels(ctx) })
	own.Go(func() { k.syncLoop(ctx) })
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
		return k.compare
	default:
	}
	select {
	case <-tick:
	case <-k.soon:
	case <-compare:
		return k.compare
	case <-ctx.Done():
	}
	return k.flush
}

func (k *Keeper) logger() *slog.Logger {
	if k.cfg.Logger == nil {
		return slog.Default()
	}
	return k.cfg.Logger
}

var _ watchdog.Keeper = (*Keeper)(nil)
