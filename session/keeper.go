package session

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
)

// The defaults of a [KeeperConfig].
const (
	DefaultThreshold = 10 * time.Minute
	DefaultPace      = time.Second
	DefaultPoll      = 2 * time.Second
)

// paces is how many looks there are in a threshold, at least, for the rows of live runs never to be as old as that.
const paces = 4

// A KeeperConfig says how rows are kept. It is copied.
type KeeperConfig struct {
	// Store keeps the rows. It must be set.
	Store Store
	// Host is the name of this process in its rows; empty means the machine's host name.
	Host string
	// Threshold is after which silence the sweepers of this database end a session. What a row shows is never for longer than Pace behind its run by more than a tenth
	// of it. Zero means [DefaultThreshold].
	Threshold time.Duration
	// RunThreshold, where set, has the rows of this process carry a threshold of their own, for a sweeper to judge them by: Threshold, [watchdog.NoLimit] for never, or 0 for none.
	RunThreshold func(runID string) time.Duration
	// Pace is how often the runs are looked at, and so how late a row can be that wakes up: at most a quarter of each threshold. Zero means [DefaultPace].
	Pace time.Duration
	// Poll is how often a store is asked for cancels; one that is listened to is asked thirty times less often. Zero means [DefaultPoll].
	Poll time.Duration
	// RecordTimeout bounds each call to the store. Zero means [watchdog.DefaultRecordTimeout].
	RecordTimeout time.Duration
	// Logger gets what no caller is returned. Nil means [slog.Default].
	Logger *slog.Logger
}

// A Keeper keeps the rows of a process's live runs: give it to them as their [watchdog.Config].Keeper, and have [Keeper.Run] run beside them. It writes the rows of all runs
// in one statement, each about ten times in its threshold, and none on the path of a signal. It has a run that was cancelled from elsewhere end, with that cancel as its
// cause. All methods are safe for concurrent use.
//
// Of several watchdogs of one run in one process the latest is kept.
type Keeper struct {
	cfg   KeeperConfig
	began time.Time
	wake  chan struct{} // says that somebody was asked; has room for one

	mu    sync.Mutex
	kept  map[string]*kept
	asked map[string]bool // runs that are to look for their cancel
	down  bool            // the store failed at the last look
}

// A kept is a run that is kept. It belongs to the keeper's mutex.
type kept struct {
	run       *watchdog.Watchdog
	attempt   int
	threshold time.Duration
	shown     time.Duration // when the row says that the run had its last sign of life, since began; not later than it does
	unsure    bool          // whether the row is still this attempt's was not heard for a time
	failing   bool          // it could not look for its cancel at the last try
}

// NewKeeper makes a keeper of a config, whose flaw is an error that wraps [watchdog.ErrInvalid].
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	switch {
	case cfg.Store == nil:
		return nil, fmt.Errorf("%w keeper config: set Store", watchdog.ErrInvalid)
	case min(cfg.Threshold, cfg.Pace, cfg.Poll, cfg.RecordTimeout) < 0:
		return nil, fmt.Errorf("%w keeper config: a length is negative; use a positive duration, or 0 for the default", watchdog.ErrInvalid)
	}
	if cfg.Host == "" {
		cfg.Host, _ = os.Hostname() // an unnamed machine has no name in its rows
	}
	cfg.Threshold = cmp.Or(cfg.Threshold, DefaultThreshold)
	cfg.Pace, cfg.Poll = cmp.Or(cfg.Pace, DefaultPace), cmp.Or(cfg.Poll, DefaultPoll)
	cfg.RecordTimeout = cmp.Or(cfg.RecordTimeout, watchdog.DefaultRecordTimeout)
	if cfg.Threshold/paces < cfg.Pace {
		return nil, fmt.Errorf("%w keeper config: Pace is %v, and Threshold only %v; use at most a quarter of it", watchdog.ErrInvalid, cfg.Pace, cfg.Threshold)
	}
	return &Keeper{cfg: cfg, began: time.Now(), wake: make(chan struct{}, 1), kept: map[string]*kept{}, asked: map[string]bool{}}, nil
}

// Keep implements [watchdog.Keeper]: it begins an attempt in the run's row. An attempt that is still active there has ended without a word, unless it is one of
// this keeper's.
func (k *Keeper) Keep(ctx context.Context, w *watchdog.Watchdog) (watchdog.Attempt, error) {
	own, err := k.own(w.ID())
	if err != nil {
		return watchdog.Attempt{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	earlier, at := k.live(w.ID()), k.now()
	before, after, err := k.cfg.Store.Attach(ctx, Session{RunID: w.ID(), Parent: w.Parent(), Threshold: own, StartedAt: w.StartedAt(), Host: k.cfg.Host})
	if err != nil {
		return watchdog.Attempt{}, fmt.Errorf("begin an attempt of run %s: %w", w.ID(), err)
	}
	k.begin(&kept{run: w, attempt: after.Attempt, threshold: min(cmp.Or(own, k.cfg.Threshold), k.cfg.Threshold), shown: at})
	lost := before.Attempt > 0 && before.Status == Active && (earlier == nil || earlier.attempt != before.Attempt)
	return watchdog.Attempt{Number: after.Attempt, Lost: lost}, nil
}

// own is the threshold that a run's row carries.
func (k *Keeper) own(runID string) (time.Duration, error) {
	if k.cfg.RunThreshold == nil {
		return 0, nil
	}
	own := k.cfg.RunThreshold(runID)
	if own < 0 || own > 0 && own/paces < k.cfg.Pace {
		return 0, fmt.Errorf("%w keeper config: RunThreshold says %v for run %s; use 0, or at least four times the Pace, which is %v", watchdog.ErrInvalid, own, runID, k.cfg.Pace)
	}
	return own, nil
}

// begin keeps a run, unless a later attempt at it is kept already.
func (k *Keeper) begin(r *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if there := k.kept[r.run.ID()]; there == nil || there.attempt < r.attempt {
		k.kept[r.run.ID()] = r
	}
}

// Live returns how many runs are kept.
func (k *Keeper) Live() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.kept)
}

func (k *Keeper) live(runID string) *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[runID]
}

// now is the time since the keeper was made.
func (k *Keeper) now() time.Duration { return time.Since(k.began) }

// Run keeps the rows until the context ends, and then writes down once more what there is, for at most twice the record timeout; it returns nil. End it after the
// watchdogs are closed, for their rows to say so. A store that fails is asked again at the next look; the log tells when that begins and ends. Without Run the rows of
// live runs go stale.
func (k *Keeper) Run(ctx context.Context) error {
	var own sync.WaitGroup
	defer own.Wait()
	own.Go(func() { k.hear(ctx) })
	own.Go(func() { k.obey(ctx) })
	tick := time.NewTicker(k.cfg.Pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			k.look(ctx)
		case <-ctx.Done():
			k.look(context.WithoutCancel(ctx))
			return nil
		}
	}
}

func (k *Keeper) log() *slog.Logger {
	if k.cfg.Logger == nil {
		return slog.Default()
	}
	return k.cfg.Logger
}

var _ watchdog.Keeper = (*Keeper)(nil)
