package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func TestARowIsKeptFresh(t *testing.T) {
	t.Run("within a tenth of the threshold and a pace", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			for range 1000 {
				b.after(time.Second)
				wd.Activity()
				require.LessOrEqual(t, time.Since(b.row("s-1").LastEventAt), time.Minute+time.Second)
			}
		})
	})
	t.Run("to when the last sign was, and from then on no more", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			b.after(59 * time.Second)
			wd.Progress()
			last := time.Now()
			b.after(4 * time.Minute)
			require.NotEqual(t, last.UTC(), b.row("s-1").LastEventAt)
			b.after(2 * time.Minute)
			require.Equal(t, last.UTC(), b.row("s-1").LastEventAt)
			b.db.counted()
			b.after(time.Hour)
			calls, _ := b.db.counted()
			require.Zero(t, calls["Freshen"])
		})
	})
	t.Run("within a pace for a run that wakes up after a long silence", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			b.after(10*time.Minute - time.Millisecond)
			wd.Activity()
			woke := time.Now()
			b.after(time.Second)
			require.Equal(t, woke.UTC(), b.row("s-1").LastEventAt)
		})
	})
	t.Run("during a hold, and after it from its end", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			hold, err := wd.Hold(context.Background(), "build", watchdog.NoLimit)
			require.NoError(t, err)
			b.after(time.Hour)
			require.LessOrEqual(t, time.Since(b.row("s-1").LastEventAt), time.Minute+time.Second)
			hold.Close()
			end := time.Now()
			b.after(10 * time.Minute)
			require.Equal(t, end.UTC(), b.row("s-1").LastEventAt)
		})
	})
	t.Run("by a threshold of its own where that is shorter, and by the keeper's where it is longer", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			b.cfg.RunThreshold = func(runID string) time.Duration {
				return map[string]time.Duration{"s-1": time.Minute, "s-2": watchdog.NoLimit}[runID]
			}
			k := b.another("here")
			defer b.run(k)()
			short, off := b.attachTo(k, "s-1"), b.attachTo(k, "s-2")
			begun := time.Now().UTC()
			b.after(6*time.Second + 500*time.Millisecond)
			short.Activity()
			off.Activity()
			b.after(time.Second)
			require.NotEqual(t, begun, b.row("s-1").LastEventAt)
			require.Equal(t, begun, b.row("s-2").LastEventAt)
			b.after(time.Minute)
			off.Activity()
			b.after(time.Second)
			require.NotEqual(t, begun, b.row("s-2").LastEventAt)
		})
	})
	t.Run("also with what came while the answer of a statement was waited for", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.Store = lateStore{b.db}
			b.running()
			wd := b.attach("s-1")
			b.after(2*time.Minute - 500*time.Millisecond)
			wd.Activity()
			b.after(2 * time.Second)
			wd.Activity()
			last := time.Now()
			b.after(6 * time.Minute)
			require.Equal(t, last.UTC(), b.row("s-1").LastEventAt)
		})
	})
}

// lateStore has written rows long before it says so.
type lateStore struct{ session.Store }

func (s lateStore) Freshen(ctx context.Context, fresh []session.Freshness) ([]string, error) {
	gone, err := s.Store.Freshen(ctx, fresh)
	time.Sleep(4 * time.Second) // the bubble's
	return gone, err
}

func TestTenThousandRunsCostAFewStatementsASecond(t *testing.T) {
	const runs = 10_000
	inBed(t, func(b *bed) {
		b.running()
		all := make([]*watchdog.Watchdog, runs)
		for i := range all {
			all[i] = b.attach(name(i))
			if i%200 == 0 {
				b.after(time.Second)
			}
		}
		b.db.counted()
		for range 60 {
			for _, wd := range all {
				wd.Activity()
			}
			b.after(time.Second)
		}
		calls, written := b.db.counted()
		sum := 0
		for _, n := range calls {
			sum += n
		}
		require.LessOrEqual(t, calls["Freshen"], 60)
		require.Zero(t, calls["End"])
		require.Less(t, sum, 2*60, "%v", calls)
		require.InDelta(t, runs, written, runs/10, "each about once in a minute, which is a tenth of its threshold")
		for i := range all {
			require.LessOrEqual(t, time.Since(b.row(name(i)).LastEventAt), time.Minute+2*time.Second)
		}
	})
}

func TestSignalsDoNotWaitForTheDatabase(t *testing.T) {
	inBed(t, func(b *bed) {
		b.running()
		wd := b.attach("s-1")
		b.after(2 * time.Minute)
		wd.Activity()
		b.db.spoil(func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) })
		b.after(2 * time.Second) // a look hangs
		b.db.counted()
		begun := time.Now()
		for range 1000 {
			wd.Activity()
			wd.Progress()
		}
		require.Zero(t, testing.AllocsPerRun(100, wd.Activity))
		require.Equal(t, begun, time.Now())
		calls, _ := b.db.counted()
		require.Empty(t, calls)
		require.NoError(t, wd.Close())
		require.Equal(t, begun, time.Now())
	})
}

func TestADatabaseThatIsDown(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, call string) error{
		"and says so": func(context.Context, string) error { return errDown },
		"and hangs":   func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		t.Run(name+" loses nothing, and the log tells when it begins and when it is over", func(t *testing.T) {
			inBed(t, func(b *bed) {
				b.running()
				wd, done := b.attach("s-1"), b.attach("s-2")
				b.after(2 * time.Minute)
				wd.Activity()
				b.db.spoil(fail)
				done.Close()
				for range 300 {
					b.after(time.Second)
					wd.Activity()
				}
				require.Equal(t, 1, b.log.count("cannot be kept fresh"))
				require.Equal(t, session.Active, b.row("s-2").Status)
				b.db.spoil(nil)
				b.after(2*watchdog.DefaultRecordTimeout + time.Second)
				require.Less(t, time.Since(b.row("s-1").LastEventAt), 20*time.Second)
				require.Equal(t, session.Finished, b.row("s-2").Status)
				require.Equal(t, 1, b.log.count("are kept fresh again"))
				b.after(time.Hour)
				require.Equal(t, 1, b.log.count("cannot be kept fresh"))
				require.Equal(t, 1, b.the().Live())
			})
		})
	}
	t.Run("for the rows of live runs alone is an outage too", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd, done := b.attach("s-1"), b.attach("s-2")
			b.db.spoil(func(_ context.Context, call string) error {
				if call == "Freshen" {
					return errDown
				}
				return nil
			})
			b.after(5 * time.Minute)
			wd.Activity()
			done.Close()
			b.after(time.Second)
			require.Equal(t, session.Finished, b.row("s-2").Status)
			require.Equal(t, 1, b.log.count("level=ERROR"))
		})
	})
	t.Run("for the ends of runs alone keeps the rows of others fresh", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd, done := b.attach("s-1"), b.attach("s-2")
			b.db.spoil(func(_ context.Context, call string) error {
				if call == "End" {
					return errDown
				}
				return nil
			})
			done.Close()
			b.after(5 * time.Minute)
			wd.Activity()
			woke := time.Now()
			b.after(time.Second)
			require.Equal(t, woke.UTC(), b.row("s-1").LastEventAt)
			require.Equal(t, 1, b.log.count("level=ERROR"))
		})
	})
	t.Run("is no outage where the keeper's own end is in the middle of a call", func(t *testing.T) {
		inBed(t, func(b *bed) {
			stop := b.run(b.the())
			wd := b.attach("s-1")
			b.after(2 * time.Minute)
			wd.Activity()
			ended := 0
			b.db.spoil(func(ctx context.Context, call string) error {
				if ended++; call == "Freshen" && ended == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
			b.after(time.Second)
			stop()
			require.Less(t, time.Since(b.row("s-1").LastEventAt), 2*time.Second, "written by the last look")
			require.Zero(t, b.log.count("level="))
		})
	})
}

func TestADatabaseThatIsSlow(t *testing.T) {
	inBed(t, func(b *bed) {
		b.running()
		wd := b.attach("s-1")
		b.db.spoil(func(context.Context, string) error { time.Sleep(4 * time.Second); return nil })
		for range 600 {
			b.after(time.Second)
			wd.Activity()
			require.Less(t, time.Since(b.row("s-1").LastEventAt), time.Minute+6*time.Second)
		}
		require.Zero(t, b.log.count("level="))
		b.db.spoil(nil)
		b.after(10 * time.Second)
	})
}
