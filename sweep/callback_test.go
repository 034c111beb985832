package sweep_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

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
