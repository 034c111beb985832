package session

import (
	"cmp"
	"context"
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
)

// ErrInvalidConfig is wrapped by what [NewKeeper] returns for a [KeeperConfig] without a Store or with a negative length.
var ErrInvalidConfig = errors.New("invalid keeper config")

// A KeeperConfig says how rows are kept. It is copied.
type KeeperConfig struct {
	// Store keeps the rows. It must be set.
	Store Store
	// Host is the name of this process in its rows; empty means the machine's host name.
	Host string
	// Threshold is after which silence the sweepers of this database end a session. A row is never further behind its run than a tenth of it. Zero means
	// [DefaultThreshold].
	Threshold time.Duration
	// Own, where set, has the rows of this process carry a threshold of their own, for a sweeper to judge them by: Threshold, or [Off] for never.
	Own func(runID string) time.Duration
	// Pace is how often the runs are looked at, and so how late a row can be that wakes up. Zero means [DefaultPace].
	Pace time.Duration
	// Poll is how often a store that nobody can listen to is asked for cancels. Zero means [DefaultPoll].
	Poll time.Duration
	// RecordTimeout bounds each call to the store. Zero means [watchdog.DefaultRecordTimeout].
	RecordTimeout time.Duration
	// Logger gets what no caller is returned. Nil means [slog.Default].
	Logger *slog.Logger
}

// A Keeper keeps the rows of a process's live runs: give it to them as their [watchdog.Config].Keeper, and have [Keeper.Run] run beside them. It writes the rows of all runs
// in one statement, each at most ten times in its threshold, and none on the path of a signal. It has a run that was cancelled from elsewhere end, with that cancel as its
// cause. All methods are safe for concurrent use.
//
// Of several watchdogs of one run in one process the latest is kept.
type Keeper struct {
	cfg   KeeperConfig
	began time.Time

	mu   sync.Mutex
	kept map[string]*kept
	down bool // the store failed at the last look
}

// A kept is a run that is kept. It belongs to the keeper's mutex.
type kept struct {
	run       *watchdog.Watchdog
	attempt   int
	threshold time.Duration
	shown     time.Duration // when the row says that the run had its last sign of life, since began
}

// NewKeeper makes a keeper of a config, whose flaw is an error that wraps [ErrInvalidConfig].
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	switch {
	case cfg.Store == nil:
		return nil, fmt.Errorf("%w: set Store", ErrInvalidConfig)
	case min(cfg.Threshold, cfg.Pace, cfg.Poll, cfg.RecordTimeout) < 0:
		return nil, fmt.Errorf("%w: a length is negative; use a positive duration, or 0 for the default", ErrInvalidConfig)
	}
	if cfg.Host == "" {
		cfg.Host, _ = os.Hostname() // an unnamed machine has no name in its rows
	}
	cfg.Threshold = cmp.Or(cfg.Threshold, DefaultThreshold)
	cfg.Pace, cfg.Poll = cmp.Or(cfg.Pace, DefaultPace), cmp.Or(cfg.Poll, DefaultPoll)
	cfg.RecordTimeout = cmp.Or(cfg.RecordTimeout, watchdog.DefaultRecordTimeout)
	return &Keeper{cfg: cfg, began: time.Now(), kept: map[string]*kept{}}, nil
}

// Keep implements [watchdog.Keeper]: it begins an attempt in the run's row. An attempt that is still active there has ended without a word.
func (k *Keeper) Keep(ctx context.Context, w *watchdog.Watchdog) (watchdog.Attempt, error) {
	own := time.Duration(0)
	if k.cfg.Own != nil {
		own = k.cfg.Own(w.ID())
	}
	before, after, err := k.cfg.Store.Attach(ctx, Session{RunID: w.ID(), Parent: w.Parent(), Threshold: own, StartedAt: w.StartedAt(), Host: k.cfg.Host})
	if err != nil {
		return watchdog.Attempt{}, fmt.Errorf("begin an attempt of run %s: %w", w.ID(), err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[w.ID()] = &kept{run: w, attempt: after.Attempt, threshold: min(cmp.Or(own, k.cfg.Threshold), k.cfg.Threshold), shown: time.Since(k.began)}
	return watchdog.Attempt{Number: after.Attempt, Lost: before.Attempt > 0 && before.Status == Active}, nil
}

// Live returns how many runs are kept.
func (k *Keeper) Live() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.kept)
}

// Run keeps the rows until the context ends, and then writes down once more what there is, for at most the record timeout; it returns nil. A store that fails is asked
// again at the next look; the log tells when that begins and ends. Without Run the rows of live runs go stale.
func (k *Keeper) Run(ctx context.Context) error {
	var own sync.WaitGroup
	defer own.Wait()
	told := make(chan string)
	own.Go(func() { k.hear(ctx, told) })
	own.Go(func() { k.obey(ctx, told) })
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

// look writes what has changed since the last look.
func (k *Keeper) look(ctx context.Context) {
	fresh, ends := k.changes()
	gone, err := k.write(ctx, fresh, ends)
	if err == nil {
		k.written(fresh, ends)
	}
	k.tellOutage(ctx, err)
	for _, runID := range gone {
		k.heed(ctx, runID)
	}
}

// changes are the runs that gave signs of life which their rows do not show, and those that have ended.
func (k *Keeper) changes() (fresh []Fresh, ends []Ending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for runID, r := range k.kept {
		if r.run.Context().Err() != nil {
			ends = append(ends, r.ending(runID))
			continue
		}
		silence, now := r.run.Silence(), time.Since(k.began)
		if verdict.Freshen(r.threshold, r.shown, now-silence, now) {
			fresh = append(fresh, Fresh{RunID: runID, Attempt: r.attempt, Age: silence})
		}
	}
	return fresh, ends
}

// ending is how a run that has ended did.
func (r *kept) ending(runID string) Ending {
	e := Ending{RunID: runID, Attempt: r.attempt, Status: Interrupted}
	cause := context.Cause(r.run.Context())
	var stop *watchdog.Stop
	switch {
	case errors.As(cause, &stop) && stop.RunID == runID:
		e.Status, e.Reason = Cancelled, stop.Code
	case errors.Is(cause, watchdog.ErrClosed):
		e.Status = Finished
	}
	return e
}

func (k *Keeper) write(ctx context.Context, fresh []Fresh, ends []Ending) (gone []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	if len(ends) > 0 {
		err = k.cfg.Store.End(ctx, ends)
	}
	if len(fresh) > 0 && err == nil {
		gone, err = k.cfg.Store.Freshen(ctx, fresh)
	}
	return gone, err
}

// written notes that the rows show what there was.
func (k *Keeper) written(fresh []Fresh, ends []Ending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Since(k.began)
	for _, f := range fresh {
		if r := k.kept[f.RunID]; r != nil && r.attempt == f.Attempt {
			r.shown = now - f.Age
		}
	}
	for _, e := range ends {
		if r := k.kept[e.RunID]; r != nil && r.attempt == e.Attempt {
			delete(k.kept, e.RunID)
		}
	}
}

// tellOutage tells the log when the store begins to fail, and when it stops.
func (k *Keeper) tellOutage(ctx context.Context, err error) {
	k.mu.Lock()
	was := k.down
	k.down = err != nil
	k.mu.Unlock()
	switch {
	case err != nil && !was && ctx.Err() == nil:
		k.log().Error("session rows cannot be kept fresh", "runs", k.Live(), "error", err)
	case err == nil && was:
		k.log().Info("session rows are kept fresh again", "runs", k.Live())
	}
}

func (k *Keeper) log() *slog.Logger {
	if k.cfg.Logger == nil {
		return slog.Default()
	}
	return k.cfg.Logger
}
