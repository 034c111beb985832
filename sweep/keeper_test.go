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
				f.cfg.Interval, f.cfg.StartupDelay = 5*time.Second, watchdog.None
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
