package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
)

func TestFreshRows(t *testing.T) {
	subtest(t, "within a tenth of the threshold and a pace", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		for range 1000 {
			f.advance(time.Second)
			wd.Activity()
			require.LessOrEqual(f, time.Since(f.shown("s-1")), time.Minute+time.Second)
		}
	})
	subtest(t, "to the time of the last activity, and is then not written again", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.advance(59 * time.Second)
		wd.Progress()
		last := time.Now()
		f.advance(time.Minute - time.Second)
		require.NotEqual(f, last.UTC(), f.shown("s-1"))
		f.advance(2 * time.Second)
		require.Equal(f, last.UTC(), f.shown("s-1"), "the run is quiet now")
		f.db.takeCounts()
		f.advance(time.Hour)
		calls, _ := f.db.takeCounts()
		require.Zero(f, calls["Freshen"])
	})
	subtest(t, "within a pace when a run wakes up after a long silence", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.advance(10*time.Minute - time.Millisecond)
		wd.Activity()
		woke := time.Now()
		f.advance(awake)
		require.Equal(f, woke.UTC(), f.shown("s-1"))
	})
	subtest(t, "within a pace when a run wakes up after its row was written late", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.advance(59 * time.Second)
		wd.Activity()
		f.advance(5 * time.Minute)
		require.NotEqual(f, f.row("s-1").CreatedAt, f.shown("s-1"))
		wd.Activity()
		woke := time.Now()
		f.advance(awake)
		require.Equal(f, woke.UTC(), f.shown("s-1"))
	})
	subtest(t, "during a hold, and from its end on after it", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		hold, err := wd.Hold(context.Background(), "build", watchdog.HoldLimit{Cap: watchdog.NoLimit})
		require.NoError(f, err)
		f.advance(time.Hour)
		require.LessOrEqual(f, time.Since(f.shown("s-1")), time.Minute+time.Second)
		hold.Close()
		end := time.Now()
		f.advance(10 * time.Minute)
		require.Equal(f, end.UTC(), f.shown("s-1"))
	})
	subtest(t, "by the run's own threshold if that is shorter than the keeper's", func(f *fixture) {
		f.start()
		f.cfg.RunThreshold = func(runID string) time.Duration {
			return map[string]time.Duration{"s-1": time.Minute, "s-2": watchdog.NoLimit}[runID]
		}
		k := f.newKeeper("here")
		defer f.run(k)()
		short, off := f.attachTo(k, "s-1"), f.attachTo(k, "s-2")
		begun := time.Now().UTC()
		f.advance(6*time.Second + 500*time.Millisecond)
		short.Activity()
		off.Activity()
		f.advance(time.Second)
		f.advance(awake)
		require.NotEqual(f, begun, f.shown("s-1"))
		require.Equal(f, begun, f.shown("s-2"))
		f.advance(time.Minute)
		off.Activity()
		f.advance(awake)
		require.NotEqual(f, begun, f.shown("s-2"))
	})
	subtest(t, "with activity that came while a statement waited for its answer", func(f *fixture) {
		f.cfg.Store = slowFreshen{f.db}
		f.start()
		wd := f.attach("s-1")
		f.advance(2*time.Minute - 500*time.Millisecond)
		wd.Activity()
		f.advance(2 * time.Second)
		wd.Activity()
		last := time.Now()
		f.advance(6 * time.Minute)
		require.Equal(f, last.UTC(), f.shown("s-1"))
	})
}

// TestRowsTogether checks that rows of runs that began one after the other come to be written together, none late and
// not more of them.
func TestRowsTogether(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		all := make([]*watchdog.Watchdog, 60)
		signal := func() {
			for i, wd := range all {
				if wd != nil {
					wd.Activity()
					require.LessOrEqual(t, time.Since(f.shown(name(i))), time.Minute+time.Second)
				}
			}
			f.advance(time.Second)
		}
		for i := range all {
			all[i] = f.attach(name(i))
			signal()
		}
		for range 120 {
			signal()
		}
		f.db.takeCounts()
		for range 600 {
			signal()
		}
		calls, written := f.db.takeCounts()
		require.LessOrEqual(t, calls["Freshen"], 10*20)
		require.LessOrEqual(t, written, 10*len(all)*21/20)
	})
}

// slowFreshen returns from Freshen long after it has written the rows.
type slowFreshen struct{ session.Store }

func (s slowFreshen) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (session.Skipped, error) {
	skipped, err := s.Store.Freshen(ctx, lease, fresh)
	time.Sleep(4 * time.Second) // fake time
	return skipped, err
}

// TestManyRuns: ten thousand runs cost a few statements a second.
func TestManyRuns(t *testing.T) {
	runs := racing.Rounds(10_000, 10_000)
	inBubble(t, func(f *fixture) {
		f.start()
		all := make([]*watchdog.Watchdog, runs)
		for i := range all {
			all[i] = f.attach(name(i))
			if i%(runs/50) == 0 {
				f.advance(time.Second)
			}
		}
		f.db.takeCounts()
		for range 60 {
			for _, wd := range all {
				wd.Activity()
			}
			f.advance(time.Second)
		}
		calls, written := f.db.takeCounts()
		sum := 0
		for _, n := range calls {
			sum += n
		}
		require.LessOrEqual(t, calls["Freshen"], 60)
		require.Zero(t, calls["End"])
		require.Less(t, sum, 2*60, "%v", calls)
		require.InDelta(t, runs, written, float64(runs)/10, "each about once in a minute, which is a tenth of its threshold")
		for i := range all {
			require.LessOrEqual(t, time.Since(f.shown(name(i))), time.Minute+2*time.Second)
		}
	})
}

// TestSignalsDoNotWait: signals do not wait for a database that hangs.
func TestSignalsDoNotWait(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.advance(2 * time.Minute)
		wd.Activity()
		f.db.onCall(func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) })
		f.advance(2 * time.Second) // a flush hangs
		f.db.takeCounts()
		begun := time.Now()
		for range 1000 {
			wd.Activity()
			wd.Progress()
		}
		require.Zero(t, testing.AllocsPerRun(100, wd.Activity))
		require.Equal(t, begun, time.Now())
		calls, _ := f.db.takeCounts()
		require.Empty(t, calls)
		f.db.onCall(nil)
	})
}

// TestDormant protects that a run that had nothing new for long is looked at by the next flush, and not with the next
// renewal of the lease, as soon as there is a reason. No time passes, so that no renewal is due.
func TestDormant(t *testing.T) {
	for name, rouse := range map[string]func(f *fixture){
		"its lease has expired, and another begins": func(f *fixture) {
			f.expire(f.row("s-1").Lease)
			f.keeper().Renew(context.Background())
			require.Empty(f, f.row("s-1").Lease)
		},
		"its row is to be written again": func(f *fixture) { f.keeper().RecheckAll() },
	} {
		subtest(t, name, func(f *fixture) {
			f.attach("s-1")
			f.keeper().Flush(context.Background())
			f.db.takeCounts()
			rouse(f)
			f.keeper().Flush(context.Background())
			_, written := f.db.takeCounts()
			require.Equal(f, 1, written)
			require.NotEmpty(f, f.row("s-1").Lease)
			f.keeper().Flush(context.Background())
			_, written = f.db.takeCounts()
			require.Zero(f, written, "it is dormant again")
		})
	}
	subtest(t, "its row was locked when it ended", func(f *fixture) {
		wd := f.attach("s-1")
		f.keeper().Flush(context.Background())
		f.db.Locked = func(string) bool { return true }
		require.NoError(f, wd.Close())
		f.db.Locked = nil
		require.Equal(f, session.Active, f.row("s-1").Status)
		f.keeper().Flush(context.Background())
		require.Equal(f, session.Finished, f.row("s-1").Status)
	})
}

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
