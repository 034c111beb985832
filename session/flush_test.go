package session_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
)

func TestFreshRows(t *testing.T) {
	running(t, "to the time of the last activity, and is then not written again", func(f *fixture) {
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
		require.Zero(f, f.db.taken("Freshen"))
	})
	running(t, "within a pace when a run wakes up after its row was written late", func(f *fixture) {
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
	running(t, "by the run's own threshold if that is shorter than the keeper's", func(f *fixture) {
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
	k.BeginRunning()
	all := make([]*watchdog.Watchdog, 10_000)
	for i := range all {
		run := watchdog.Run{ID: name(i), StartedAt: time.Now()}
		all[i], err = watchdog.New(context.Background(), run, watchdog.Config{Store: store, Keeper: k})
		require.NoError(b, err)
		b.Cleanup(func() { all[i].Close() })
	}
	return k, all
}

func TestDatabaseDown(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, call string) error{
		"and says so": func(context.Context, string) error { return errDown },
		"and hangs":   func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		running(t, name+" loses nothing, and its start and end are logged", func(f *fixture) {
			wd, done := f.attach("s-1"), f.attach("s-2")
			f.advance(2 * time.Minute)
			wd.Activity()
			f.db.onCall(fail)
			done.Close()
			for range 300 {
				f.advance(time.Second)
				wd.Activity()
			}
			require.Equal(f, 1, f.logged("cannot be kept fresh"))
			require.Equal(f, session.Active, f.row("s-2").Status)
			f.db.onCall(nil)
			f.advance(2*watchdog.DefaultRecordTimeout + time.Second)
			require.Less(f, time.Since(f.shown("s-1")), 20*time.Second)
			require.Equal(f, session.Finished, f.row("s-2").Status)
			require.Equal(f, 1, f.logged("are kept fresh again"))
			f.advance(time.Hour)
			require.Equal(f, 1, f.logged("cannot be kept fresh"))
			require.Equal(f, 1, f.keeper().Live())
		})
	}
	running(t, "only for the ends of runs: the rows of live runs stay fresh", func(f *fixture) {
		wd, done := f.attach("s-1"), f.attach("s-2")
		f.db.fail("End")
		done.Close()
		f.advance(5 * time.Minute)
		wd.Activity()
		woke := time.Now()
		f.advance(awake)
		require.Equal(f, woke.UTC(), f.shown("s-1"))
		require.Equal(f, 1, f.logged("level=ERROR"))
		f.db.onCall(nil)
	})
	subtest(t, "not down: a stop of the keeper in the middle of a call is no outage", func(f *fixture) {
		stop := f.run(f.keeper())
		wd := f.attach("s-1")
		f.advance(2 * time.Minute)
		wd.Activity()
		ended := 0
		f.db.onCall(func(ctx context.Context, call string) error {
			if ended++; call == "Freshen" && ended == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		f.advance(awake)
		stop()
		require.Less(f, time.Since(f.shown("s-1")), 2*time.Second+awake, "written by the last flush")
		require.Zero(f, f.logged("level="))
	})
}

// TestUnrecorded protects that a row does not say that a run was cancelled before its event does.
func TestUnrecorded(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.db.fail("Append", "Transact")
		f.advance(watchdog.DefaultWallClock + time.Minute)
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		require.Error(t, wd.Close())
		f.advance(time.Minute)
		require.Equal(t, session.Active, f.row("s-1").Status)
		f.db.onCall(nil)
		f.advance(2 * awake)
		require.Equal(t, session.Cancelled, f.row("s-1").Status)
		stored, err := f.db.Memory.Read(context.Background(), event.AggregateType, "s-1")
		require.NoError(t, err)
		isCancel := func(e watchdog.Event) bool { return e.Type == event.Cancel }
		require.True(t, slices.ContainsFunc(stored, isCancel))
	})
}

// busy has runs signal every second for so long.
func busy(f *fixture, long time.Duration, runs ...*watchdog.Watchdog) {
	for range int(long / time.Second) {
		for _, wd := range runs {
			wd.Activity()
		}
		f.advance(time.Second)
	}
}

// TestLockedRows checks that rows which others have locked hold up no others, and are written when they are free.
func TestLockedRows(t *testing.T) {
	running(t, "the others are kept fresh", func(f *fixture) {
		locked, free := f.attach("s-1"), f.attach("s-2")
		f.db.change(func() { f.db.locked["s-1"] = true })
		busy(f, time.Hour, locked, free)
		require.LessOrEqual(f, time.Since(f.shown("s-2")), time.Minute+time.Second)
		require.Greater(f, time.Since(f.shown("s-1")), 58*time.Minute)
		f.db.change(func() { delete(f.db.locked, "s-1") })
		f.advance(2 * time.Second)
		require.Less(f, time.Since(f.shown("s-1")), 4*time.Second)
		require.Zero(f, f.logged("level=ERROR"), "it is no outage")
	})
	running(t, "each is waited for alone, in their order, though one stays locked", func(f *fixture) {
		f.db.patient, f.db.stuck = true, "s-1"
		var runs []*watchdog.Watchdog
		for _, runID := range []string{"s-1", "s-2", "s-3"} {
			f.db.locked[runID] = true
			runs = append(runs, f.attach(runID))
			f.advance(time.Second)
		}
		busy(f, 60*time.Second, runs...) // each is due a minute after its attach
		busy(f, 5*time.Second, runs...)
		require.NotEmpty(f, f.db.attempts["s-3"])
		require.Empty(f, f.db.alone, "they were not locked for long")
		f.db.onCall(func(context.Context, string) error { return errTrigger })
		busy(f, 20*time.Second, runs...) // now all were locked for long
		f.db.alone = nil
		f.db.onCall(nil)
		busy(f, 3*time.Second, runs...)
		require.Equal(f, []string{"s-1", "s-2", "s-3"}, f.db.alone)
		require.Less(f, time.Since(f.shown("s-2")), 4*time.Second)
		require.Less(f, time.Since(f.shown("s-3")), 4*time.Second)
		tries := len(f.db.attempts["s-2"])
		busy(f, 30*time.Second, runs...)
		require.Len(f, f.db.attempts["s-2"], tries, "it is fresh")
	})
}

// TestRefusedRows checks that a row which the database refuses holds up no others, and is tried by growing pauses.
func TestRefusedRows(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		refused, free, ended := f.attach("s-1"), f.attach("s-2"), f.attach("s-3")
		f.advance(time.Minute)
		f.db.change(func() { f.db.refused["s-1"], f.db.refused["s-3"] = true, true })
		ended.Close()
		busy(f, time.Hour, refused, free)
		require.LessOrEqual(t, time.Since(f.shown("s-2")), time.Minute+time.Second)
		require.Equal(t, 2, f.logged("the database refuses the row of a session"))
		require.Equal(t, 2, f.logged(errTrigger.Error()))
		f.db.change(func() { clear(f.db.refused) })
		f.advance(time.Minute + time.Second)
		require.Less(t, time.Since(f.shown("s-1")), 2*time.Minute)
		require.Equal(t, session.Finished, f.row("s-3").Status)
		f.db.refused["s-1"] = true
		busy(f, 2*time.Minute, refused)
		require.Equal(t, 3, f.logged("the database refuses the row of a session"), "after it was written")
	})
}

// TestRefusedAtEnd checks that the keeper's end does not keep to the pause of a row that was refused.
func TestRefusedAtEnd(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.db.refused["s-1"] = true
		stop := f.run(f.keeper())
		f.attach("s-1").Close()
		f.advance(10*time.Minute + 20*time.Second) // it is left alone for a minute by now, and for most of this one
		clear(f.db.refused)
		tries := len(f.db.attempts["s-1"])
		stop()
		require.Len(t, f.db.attempts["s-1"], tries+1)
		require.Equal(t, session.Finished, f.row("s-1").Status)
	})
}

// TestLateAnswer checks that what became of the row of an attempt does not count for the one that began meanwhile.
func TestLateAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		busy(f, 59*time.Second, wd)
		f.db.refused["s-1"] = true
		f.db.onCall(func(_ context.Context, call string) error {
			if call == "Freshen" {
				f.db.onCall(nil)
				time.Sleep(2 * time.Second) // fake time
				f.attach("s-1")
			}
			return nil
		})
		busy(f, 5*time.Second, wd)
		require.Equal(t, 2, f.row("s-1").Attempt)
		require.Zero(t, f.logged(errTrigger.Error()))
		f.db.takeCounts()
		f.advance(20 * time.Minute)
		require.Zero(t, f.db.taken("Freshen"), "the row shows the attach")
	})
}

// TestRefusedPauses checks that each pause of a row that is refused is twice the one before, and no look longer.
func TestRefusedPauses(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		f.db.refused["s-1"] = true
		f.attach("s-1").Close()
		f.advance(4 * time.Minute)
		var pauses []time.Duration
		tries := f.db.attempts["s-1"]
		for i := range 6 {
			pauses = append(pauses, tries[i+2].Sub(tries[i+1])) // the first try was Close's
		}
		require.Equal(t, []time.Duration{
			2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute,
		}, pauses)
	})
}
