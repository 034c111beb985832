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
	t.Run("within a tenth of the threshold and a pace", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.start()
			wd := f.attach("s-1")
			for range 1000 {
				f.advance(time.Second)
				wd.Activity()
				require.LessOrEqual(t, time.Since(f.shown("s-1")), time.Minute+time.Second)
			}
		})
	})
	t.Run("to the time of the last activity, and is then not written again", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.start()
			wd := f.attach("s-1")
			f.advance(59 * time.Second)
			wd.Progress()
			last := time.Now()
			f.advance(time.Minute - time.Second)
			require.NotEqual(t, last.UTC(), f.shown("s-1"))
			f.advance(2 * time.Second)
			require.Equal(t, last.UTC(), f.shown("s-1"), "the run is quiet now")
			f.db.takeCounts()
			f.advance(time.Hour)
			calls, _ := f.db.takeCounts()
			require.Zero(t, calls["Freshen"])
		})
	})
	t.Run("within a pace when a run wakes up after a long silence", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.start()
			wd := f.attach("s-1")
			f.advance(10*time.Minute - time.Millisecond)
			wd.Activity()
			woke := time.Now()
			f.advance(awake)
			require.Equal(t, woke.UTC(), f.shown("s-1"))
		})
	})
	t.Run("within a pace when a run wakes up after its row was written late", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.start()
			wd := f.attach("s-1")
			f.advance(59 * time.Second)
			wd.Activity()
			f.advance(5 * time.Minute)
			require.NotEqual(t, f.row("s-1").CreatedAt, f.shown("s-1"))
			wd.Activity()
			woke := time.Now()
			f.advance(awake)
			require.Equal(t, woke.UTC(), f.shown("s-1"))
		})
	})
	t.Run("during a hold, and from its end on after it", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.start()
			wd := f.attach("s-1")
			hold, err := wd.Hold(context.Background(), "build", watchdog.HoldLimit{Cap: watchdog.NoLimit})
			require.NoError(t, err)
			f.advance(time.Hour)
			require.LessOrEqual(t, time.Since(f.shown("s-1")), time.Minute+time.Second)
			hold.Close()
			end := time.Now()
			f.advance(10 * time.Minute)
			require.Equal(t, end.UTC(), f.shown("s-1"))
		})
	})
	t.Run("by the run's own threshold if that is shorter than the keeper's", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
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
			require.NotEqual(t, begun, f.shown("s-1"))
			require.Equal(t, begun, f.shown("s-2"))
			f.advance(time.Minute)
			off.Activity()
			f.advance(awake)
			require.NotEqual(t, begun, f.shown("s-2"))
		})
	})
	t.Run("with activity that came while a statement waited for its answer", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.cfg.Store = slowFreshen{f.db}
			f.start()
			wd := f.attach("s-1")
			f.advance(2*time.Minute - 500*time.Millisecond)
			wd.Activity()
			f.advance(2 * time.Second)
			wd.Activity()
			last := time.Now()
			f.advance(6 * time.Minute)
			require.Equal(t, last.UTC(), f.shown("s-1"))
		})
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
