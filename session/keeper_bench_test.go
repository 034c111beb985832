package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// BenchmarkKeeperIdle measures one second of 10,000 live runs that have nothing new: a flush that writes nothing, and a
// third of the renewals of a promise, which are the only statements.
func BenchmarkKeeperIdle(b *testing.B) {
	k, _ := tenThousand(b)
	for b.Loop() {
		k.Flush(context.Background())
		k.Renew(context.Background())
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(time.Second)*100, "%core")
}

// BenchmarkKeeper measures one second of 10,000 live runs: activity of every run, a flush, and once in 60 seconds, a
// tenth of the default threshold, all their rows. It does not measure a database.
func BenchmarkKeeper(b *testing.B) {
	k, all := tenThousand(b)
	second := 0
	for b.Loop() {
		for _, wd := range all {
			wd.Activity()
		}
		if second++; second%60 == 0 {
			k.RecheckAll()
		}
		k.Flush(context.Background())
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(time.Second)*100, "%core")
}

// tenThousand returns a keeper of 10,000 runs, which end with the benchmark.
func tenThousand(b *testing.B) (*session.Keeper, []*watchdog.Watchdog) {
	b.Helper()
	store := &session.Memory{}
	k, err := session.NewKeeper(session.KeeperConfig{Store: store})
	require.NoError(b, err)
	all := make([]*watchdog.Watchdog, 10_000)
	for i := range all {
		run := watchdog.Run{ID: name(i), StartedAt: time.Now()}
		all[i], err = watchdog.New(context.Background(), run, watchdog.Config{Store: store, Keeper: k})
		require.NoError(b, err)
		b.Cleanup(func() { all[i].Close() })
	}
	return k, all
}
