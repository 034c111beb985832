package session

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/seed62658d38/watchdog"
)

// The defaults of a [KeeperConfig].
const (
	DefaultThreshold = 10 * time.Minute
	DefaultPace      = time.Second
	DefaultPoll      = 2 * time.Second
	DefaultPromise   = 10 * time.Second
)

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
	// keeps. It is called for each write of a row: it must be quick. [Keeper.Refresh] has a row written soon. If what it
	// adds is no JSON, such as NaN, the row has only what the watchdog knows. Nil adds nothing.
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

func (c KeeperConfig) complete() (KeeperConfig, error) {
	if c.Store == nil {
		return c, fmt.Errorf("%w keeper config: set Store", watchdog.ErrInvalid)
	}
	for _, length := range []struct {
		field string
		value time.Duration
	}{
		{"Threshold", c.Threshold}, {"Promise", c.Promise}, {"Pace", c.Pace}, {"Poll", c.Poll},
		{"RecordTimeout", c.RecordTimeout},
	} {
		if length.value < 0 {
			return c, fmt.Errorf("%w keeper config: %s is %v; use a positive duration, or 0 for the default",
				watchdog.ErrInvalid, length.field, length.value)
		}
	}
	if c.Host == "" {
		c.Host, _ = os.Hostname() // the rows of a machine without a name have none
	}
	c.Threshold = cmp.Or(c.Threshold, DefaultThreshold)
	c.Pace, c.Poll = cmp.Or(c.Pace, DefaultPace), cmp.Or(c.Poll, DefaultPoll)
	c.RecordTimeout = cmp.Or(c.RecordTimeout, watchdog.DefaultRecordTimeout)
	c.Promise = cmp.Or(c.Promise, DefaultPromise)
	if c.Promise < ShortestPromise || c.Promise > LongestPromise {
		return c, fmt.Errorf("%w keeper config: Promise is %v; use at least %v and at most %v",
			watchdog.ErrInvalid, c.Promise, ShortestPromise, LongestPromise)
	}
	if c.MaxPace() < c.Pace {
		return c, fmt.Errorf("%w keeper config: Pace is %v, and Threshold only %v; use at most a quarter of it",
			watchdog.ErrInvalid, c.Pace, c.Threshold)
	}
	return c, nil
}

// MaxPace returns the longest Pace that goes with the Threshold: [NewKeeper] refuses a longer one, with which the row
// of a live run could seem stalled.
func (c KeeperConfig) MaxPace() time.Duration {
	return cmp.Or(c.Threshold, DefaultThreshold) / minFlushes
}

func (c *KeeperConfig) runThreshold(runID string) (time.Duration, error) {
	if c.RunThreshold == nil {
		return 0, nil
	}
	threshold := c.RunThreshold(runID)
	if threshold < 0 || threshold > 0 && (KeeperConfig{Threshold: threshold}).MaxPace() < c.Pace {
		return 0, fmt.Errorf("%w keeper config: RunThreshold says %v for run %s; "+
			"use 0, or at least four times the Pace, which is %v", watchdog.ErrInvalid, threshold, runID, c.Pace)
	}
	return threshold, nil
}

func (c *KeeperConfig) logger() *slog.Logger { return cmp.Or(c.Logger, slog.Default()) }
