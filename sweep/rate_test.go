package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestMaxCancellationsPerMinute(t *testing.T) {
	for _, perRun := range []int64{0, 1, 7, 30, watchdog.NoLimit} {
		subtest(t, fmt.Sprint("has full passes follow one another, and no minute with more: ", perRun), func(f *fixture) {
			f.putStalled(200)
			f.cfg.StartupDelay, f.cfg.MaxCancellationsPerRun, f.cfg.MaxCancellationsPerMinute = watchdog.None, perRun, 30
			var at []time.Time
			f.onCancel = func(context.Context, session.Session) error { at = append(at, time.Now()); return nil }
			stop := f.run()
			f.advance(8 * time.Minute)
			stop()
			require.Len(f, f.ended(), 200)
			require.LessOrEqual(f, at[199].Sub(at[0]), 7*time.Minute)
			for i := 30; i < len(at); i++ {
				require.GreaterOrEqual(f, at[i].Sub(at[i-30]), time.Minute)
			}
		})
	}
	subtest(t, "holds for passes of Sweep", func(f *fixture) {
		f.putStalled(50)
		f.cfg.MaxCancellationsPerMinute = 15
		require.Equal(f, 10, f.pass().Cancelled)
		require.Equal(f, 5, f.pass().Cancelled)
		require.Zero(f, f.pass().Cancelled)
		f.advance(time.Minute)
		require.Equal(f, 10, f.pass().Cancelled)
	})
	subtest(t, "waits for a minute that has room", func(f *fixture) {
		f.putStalled(31)
		f.cfg.StartupDelay, f.cfg.MaxCancellationsPerRun = watchdog.None, watchdog.NoLimit
		f.cfg.MaxCancellationsPerMinute = 30
		require.Equal(f, 30, f.pass().Cancelled)
		f.advance(30 * time.Second)
		stop := f.run()
		f.advance(30*time.Second - 1)
		require.Equal(f, 2, f.sweeper().Stats().Passes)
		f.advance(1)
		stop()
		require.Len(f, f.ended(), 31)
	})
	subtest(t, "passes that are not full come after the interval", func(f *fixture) {
		f.cfg.StartupDelay, f.cfg.MaxCancellationsPerMinute = watchdog.None, 30
		f.putStalled(5)
		stop := f.run()
		f.advance(5*time.Minute - 1)
		stop()
		require.Equal(f, 1, f.sweeper().Stats().Passes)
	})
}

func TestAlert(t *testing.T) {
	subtest(t, "comes once when there are more than Count cancels, and again after there were fewer", func(f *fixture) {
		var alerts []int
		call := func(_ context.Context, n int) { alerts = append(alerts, n) }
		f.cfg.Alert = sweep.Alert{Count: 3, Within: time.Hour, Func: call}
		f.putStalled(3)
		f.pass()
		require.Empty(f, alerts)
		f.advance(time.Hour) // they still count
		f.putStalled(3)
		f.pass()
		require.Equal(f, []int{4}, alerts)
		f.advance(time.Hour + 1)
		f.putStalled(3)
		f.pass()
		require.Equal(f, []int{4}, alerts, "the first six count no more")
		f.putStalled(10)
		f.pass()
		require.Equal(f, []int{4, 4}, alerts)
	})
	subtest(t, "may panic", func(f *fixture) {
		f.putStalled(2)
		f.cfg.Alert = sweep.Alert{Within: time.Hour, Func: func(context.Context, int) { panic("pager") }}
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, "alert of 1 cancels: it panicked with a string")
		require.Equal(f, 2, p.Cancelled)
	})
}

func TestOnPass(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.putStalled(1)
		var passes []sweep.Pass
		f.cfg.OnPass = func(p sweep.Pass) { passes = append(passes, p) }
		f.cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(2 * time.Second); return nil }
		p := f.pass()
		require.Equal(f, []sweep.Pass{p}, passes)
		require.Equal(f, 2*time.Second, p.Duration)
		f.onStalled = func(context.Context, session.Query) error { return errors.New("down") }
		_, err := f.sweeper().Sweep(f.Context())
		require.Error(f, err)
		require.ErrorContains(f, passes[1].Err, "down")
	})
	subtest(t, "a pass that a stop ended is given, too, and Run waits for the callback", func(f *fixture) {
		f.cfg.StartupDelay = watchdog.None
		f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
		told := false
		f.cfg.OnPass = func(sweep.Pass) { time.Sleep(10 * time.Second); told = true }
		f.run()()
		require.True(f, told)
	})
	subtest(t, "a callback may hang", func(f *fixture) {
		f.putStalled(1)
		free := make(chan struct{})
		defer close(free)
		f.cfg.OnPass = func(sweep.Pass) { <-free }
		f.pass()
		require.Contains(f, f.log.String(), `"callback":"OnPass"`)
	})
}
