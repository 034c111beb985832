package watchdog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestSpendProgress protects a run that is attached again from a ladder that progress has put back.
func TestSpendProgress(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 5, WarnAt: []float64{}}
		f.cfg.Budget.Ladders.Requests = many(watchdog.DirectiveRetry, 3)
		wd := f.attach()
		refuse(t, wd, requests(6))
		refuse(t, wd, requests(6))
		f.pass(time.Second)
		wd.Progress()
		f.pass(time.Second)
		requireRunning(t, wd)
		require.Equal(t, []string{"retry 1", "retry 2"}, polled(wd))
		require.NoError(t, wd.Close())
		require.Len(t, f.events(watchdog.EventProgress), 1)
		wd = f.attach()
		refuse(t, wd, requests(6))
		f.pass(0)
		require.Equal(t, []string{"retry 1"}, polled(wd))
	})
}
