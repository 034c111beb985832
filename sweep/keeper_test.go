package sweep_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A cutStore is a database that a process can be cut off from: its keeper's writes then wait, as those of a process
// that was stopped.
type cutStore struct {
	*session.Memory
	mu sync.Mutex
}

// cut cuts the process off for a while.
func (c *cutStore) cut(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	time.Sleep(d)
}

func (c *cutStore) wait() {
	for !c.mu.TryLock() { // a mutex would not block durably
		time.Sleep(10 * time.Millisecond)
	}
	c.mu.Unlock()
}

func (c *cutStore) RenewLease(ctx context.Context, l session.Lease) error {
	c.wait()
	return c.Memory.RenewLease(ctx, l)
}

func (c *cutStore) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (session.Skipped, error) {
	c.wait()
	return c.Memory.Freshen(ctx, lease, fresh)
}

// TestKeeperCutOff has a real keeper and a real sweeper on one database.
func TestKeeperCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		cut     time.Duration
		expired int
	}{
		"for less than three promises keeps its lease":   {26 * time.Second, 0},
		"for three promises and more loses it":           {60 * time.Second, 1},
		"for a moment is not noticed":                    {time.Second, 0},
		"for longer than the threshold loses its runs":   {12 * time.Minute, 1},
		"for an hour that nobody sweeps loses no run":    {0, 0},
		"for just over two promises still keeps a lease": {21 * time.Second, 0},
	} {
		subtest(t, "a process that is cut off "+name, func(f *fixture) {
			store := &cutStore{Memory: f.Memory}
			keeper, err := session.NewKeeper(session.KeeperConfig{
				Store: store, RecordTimeout: 24 * time.Hour, Logger: f.cfg.Logger,
			})
			require.NoError(f, err)
			ctx, stop := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { require.NoError(f, keeper.Run(ctx)) })
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "live", StartedAt: time.Now()},
				watchdog.Config{Store: store, Keeper: keeper, Logger: f.cfg.Logger})
			require.NoError(f, err)
			running.Go(func() {
				for ctx.Err() == nil {
					wd.Progress()
					time.Sleep(time.Second)
				}
			})
			f.advance(time.Minute)
			if c.cut == 0 {
				store.cut(time.Hour)
				f.advance(time.Minute)
				f.pass()
			} else {
				f.cfg.Interval = 5 * time.Second
				stopSweeper := f.run()
				f.advance(time.Minute)
				store.cut(c.cut)
				f.advance(2 * time.Minute)
				stopSweeper()
			}
			require.Equal(f, c.expired, f.sweeper().Stats().LeasesExpired)
			swept := c.cut > 10*time.Minute
			require.Equal(f, swept, wd.Context().Err() != nil)
			require.Equal(f, swept, len(f.ended()) == 1)
			if !swept {
				require.NotEmpty(f, f.leaseOf("live"), "the run was claimed back")
			}
			_ = wd.Close()
			stop()
			running.Wait()
			synctest.Wait()
		})
	}
}

// TestOwnLimits protects a live run whose own limits of silence are longer than the threshold of the sweepers: they
// leave its end to itself.
func TestOwnLimits(t *testing.T) {
	asksTwice := []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveRetry}
	for name, c := range map[string]struct {
		budget    watchdog.Budget
		poll      bool
		observe   bool
		threshold time.Duration       // of the keeper's RunThreshold
		ended     time.Duration       // after the last sign of life
		by        watchdog.StopReason // whoever ended it
		within    time.Duration       // at the latest
	}{
		"an idle limit": {
			budget: watchdog.Budget{Idle: 20 * time.Second}, ended: 20 * time.Second, by: watchdog.IdleExceeded,
		},
		"a limit of no progress": {
			budget: watchdog.Budget{NoProgress: time.Hour}, ended: time.Hour, by: watchdog.NoProgressExceeded,
		},
		"a ladder": {
			budget: watchdog.Budget{Idle: 20 * time.Second, Ladders: watchdog.Ladders{Idle: asksTwice}},
			ended:  time.Minute, by: watchdog.IdleExceeded,
		},
		"none": {ended: 5 * time.Second, by: watchdog.SessionIdleTimeout},
		"an idle limit that is shorter than the threshold": {
			budget: watchdog.Budget{Idle: 2 * time.Second}, ended: 2 * time.Second, by: watchdog.IdleExceeded,
		},
		"an idle limit that only a poll keeps": {
			budget: watchdog.Budget{Idle: 20 * time.Second}, poll: true, ended: 20 * time.Second, by: watchdog.SessionIdleTimeout,
			within: 40 * time.Second,
		},
		"an idle limit that is only observed": {
			budget: watchdog.Budget{Idle: 20 * time.Second}, observe: true, ended: 5 * time.Second, by: watchdog.SessionIdleTimeout,
		},
		"an idle limit and a threshold of its own": {
			budget: watchdog.Budget{Idle: 20 * time.Second}, threshold: 8 * time.Second, ended: 8 * time.Second,
			by: watchdog.SessionIdleTimeout,
		},
		"an idle limit that never ends it": {
			budget: watchdog.Budget{
				WallClock: 2 * time.Hour, Idle: 20 * time.Second,
				Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
			},
			ended: 2*time.Hour - time.Second, by: watchdog.WallClockExceeded,
		},
	} {
		subtest(t, name, func(f *fixture) {
			keeper, err := session.NewKeeper(session.KeeperConfig{
				Store: f.Memory, Threshold: 5 * time.Second, Logger: f.cfg.Logger,
				RunThreshold: func(string) time.Duration { return c.threshold },
			})
			require.NoError(f, err)
			ctx, stop := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { require.NoError(f, keeper.Run(ctx)) })
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "live", StartedAt: time.Now()}, watchdog.Config{
				Store: f.Memory, Keeper: keeper, Budget: c.budget, PollOnly: c.poll, ObserveOnly: c.observe,
				Logger: f.cfg.Logger,
			})
			require.NoError(f, err)
			f.cfg.StalledThreshold, f.cfg.MinAge = 5*time.Second, watchdog.None
			f.cfg.Interval = time.Second
			stopSweeper := f.run()
			f.advance(time.Second)
			last := time.Now()
			wd.Progress()
			<-wd.Context().Done()
			silent := time.Since(last)
			require.ErrorIs(f, context.Cause(wd.Context()), c.by)
			require.GreaterOrEqual(f, silent, c.ended)
			require.LessOrEqual(f, silent, c.ended+max(c.within, 15*time.Second))
			_ = wd.Close()
			stopSweeper()
			stop()
			running.Wait()
			synctest.Wait()
		})
	}
}
