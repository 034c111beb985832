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
