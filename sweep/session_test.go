package sweep_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestAStopHook(t *testing.T) {
	t.Run("comes before the cancel, with the session as it was judged", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.put("s-1", time.Hour)
			b.cfg.StopHook = func(_ context.Context, s session.Session) error {
				require.Equal(b, session.Active, b.status(s.RunID))
				require.Equal(b, "there", s.Host)
				return nil
			}
			require.Equal(b, []string{"s-1 cancelled"}, outcomes(b.pass()))
		})
	})
	for name, c := range map[string]struct {
		hook func(ctx context.Context) error
		says string
		took time.Duration
	}{
		"fails":                 {func(context.Context) error { return errors.New("no such agent") }, "no such agent", 0},
		"panics":                {func(context.Context) error { panic(errors.New("a secret")) }, "it panicked with a *errors.errorString", 0},
		"ends its goroutine":    {func(context.Context) error { runtime.Goexit(); return nil }, "it ended its goroutine", 0},
		"hangs":                 {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "context deadline exceeded", 30 * time.Second},
		"hangs and returns nil": {func(ctx context.Context) error { <-ctx.Done(); return nil }, "", 30 * time.Second},
		"never returns":         {func(context.Context) error { time.Sleep(time.Hour); return nil }, "it has not returned and is left behind", 31 * time.Second},
	} {
		t.Run(name+": the session is cancelled all the same, and the next one, too", func(t *testing.T) {
			inBed(t, func(b *bed) {
				b.putStalled(2)
				b.cfg.StopHook = func(ctx context.Context, s session.Session) error {
					if s.RunID == "s-00" {
						return c.hook(ctx)
					}
					return nil
				}
				began := time.Now()
				p, err := b.the().Sweep(b.Context())
				require.Equal(b, c.took, time.Since(began))
				require.Equal(b, []string{"s-00 cancelled", "s-01 cancelled"}, outcomes(p))
				require.Equal(b, time.Hour+c.took, p.Cases[0].Silence)
				events, readErr := b.Read(b.Context(), watchdog.AggregateType, "s-00")
				require.NoError(b, readErr)
				require.Equal(b, began.Add(c.took).UTC(), events[1].Timestamp)
				if c.says == "" {
					require.NoError(b, err)
					return
				}
				require.ErrorContains(b, err, "stop what works on run s-00: ")
				require.ErrorContains(b, err, c.says)
				require.NotContains(b, err.Error(), "secret")
				require.Equal(b, sweep.Tally{Checked: 2, Found: 2, Cancelled: 2, Errors: 1}, p.Tally)
				b.after(time.Hour)
			})
		})
	}
}

func TestAGrace(t *testing.T) {
	warned := func(b *bed) { b.cfg.Grace, b.cfg.StartupDelay = time.Minute, watchdog.None }
	t.Run("begins with a warning, and ends with the cancel, to the moment", func(t *testing.T) {
		inBed(t, func(b *bed) {
			warned(b)
			b.put("s-1", time.Hour)
			stop := b.run()
			require.Equal(b, []string{watchdog.EventWarning}, b.events("s-1"))
			require.Equal(b, time.Now().Add(time.Minute), b.the().Stats().Next)
			b.after(time.Minute - 1)
			require.Empty(b, b.ended())
			b.after(1)
			require.Equal(b, []string{"s-1"}, b.ended())
			require.Equal(b, []string{watchdog.EventWarning, watchdog.EventWarning, watchdog.EventCancel}, b.events("s-1"))
			events, err := b.Read(b.Context(), watchdog.AggregateType, "s-1")
			require.NoError(b, err)
			require.Contains(b, string(events[2].Payload), `"attempt":2`)
			require.Equal(b, time.Now().Add(5*time.Minute), b.the().Stats().Next)
			stop()
			require.Equal(b, sweep.Tally{Checked: 2, Found: 2, Cancelled: 1, Warned: 1}, b.the().Stats().Tally)
		})
	})
	t.Run("is not ended by a pass in between", func(t *testing.T) {
		inBed(t, func(b *bed) {
			warned(b)
			b.put("s-1", time.Hour)
			require.Equal(b, 1, b.pass().Warned)
			b.after(time.Minute - 1)
			require.Equal(b, sweep.Tally{Checked: 1, Found: 1, Deferred: 1}, b.pass().Tally)
			b.after(1)
			require.Equal(b, 1, b.pass().Cancelled)
		})
	})
	t.Run("gives a session its peace that has had an event, and begins anew when that one stalls again", func(t *testing.T) {
		inBed(t, func(b *bed) {
			warned(b)
			b.put("s-1", time.Hour)
			stop := b.run()
			b.after(30 * time.Second)
			b.wake("s-1")
			b.after(16 * time.Minute) // stalled after 10 and a half, seen after 11, and warned
			require.Equal(b, []string{watchdog.EventWarning, watchdog.EventWarning}, b.events("s-1")[:2])
			require.Equal(b, 2, b.the().Stats().Warned)
			require.Equal(b, []string{"s-1"}, b.ended())
			stop()
		})
	})
	t.Run("of a pass that was asked for brings the next one of Run, too", func(t *testing.T) {
		inBed(t, func(b *bed) {
			warned(b)
			stop := b.run()
			b.put("s-1", time.Hour)
			b.pass()
			b.after(time.Minute)
			stop()
			require.Equal(b, []string{"s-1"}, b.ended())
		})
	})
	t.Run("has at most as many warned in a pass as may be cancelled, and both in one", func(t *testing.T) {
		inBed(t, func(b *bed) {
			warned(b)
			names := b.putStalled(25)
			require.Equal(b, sweep.Tally{Checked: 10, Found: 10, Warned: 10}, b.pass().Tally)
			b.after(time.Minute)
			require.Equal(b, sweep.Tally{Checked: 20, Found: 20, Warned: 10, Cancelled: 10}, b.pass().Tally)
			b.after(time.Minute)
			require.Equal(b, sweep.Tally{Checked: 15, Found: 15, Warned: 5, Cancelled: 10}, b.pass().Tally)
			b.after(time.Minute)
			require.Equal(b, sweep.Tally{Checked: 5, Found: 5, Cancelled: 5}, b.pass().Tally)
			require.Equal(b, names, b.ended())
		})
	})
	t.Run("does not have passes come faster when more are due than may be cancelled", func(t *testing.T) {
		inBed(t, func(b *bed) {
			warned(b)
			b.cfg.MaxCancellationsPerRun = 1
			b.putStalled(4)
			for range 4 {
				require.Equal(b, 1, b.pass().Warned)
			}
			b.after(time.Minute)
			stop := b.run()
			b.after(4 * time.Minute)
			require.Len(b, b.ended(), 1)
			b.after(15 * time.Minute)
			stop()
			require.Len(b, b.ended(), 4)
		})
	})
	t.Run("that is over is not put off by one that has to begin", func(t *testing.T) {
		inBed(t, func(b *bed) {
			warned(b)
			b.cfg.MaxCancellationsPerRun = 1
			b.put("s-1", time.Hour)
			b.pass()
			b.after(time.Minute)
			b.put("s-0", 2*time.Hour)
			require.Equal(b, []string{"s-0 warned", "s-1 cancelled"}, outcomes(b.pass()))
		})
	})
	t.Run("does not begin where the warning cannot be recorded", func(t *testing.T) {
		inBed(t, func(b *bed) {
			warned(b)
			b.put("s-1", time.Hour)
			s, err := sweep.New(b, &mute{bed: b, err: errors.New("disk full")}, b.cfg)
			require.NoError(b, err)
			p, err := s.Sweep(b.Context())
			require.ErrorContains(b, err, "warn run s-1: disk full")
			require.Equal(b, sweep.Tally{Checked: 1, Found: 1, Failed: 1, Errors: 1}, p.Tally)
			require.Empty(b, b.ended())
		})
	})
}

// mute is a canceller that cannot append.
type mute struct {
	*bed
	err error
}

func (m *mute) Append(context.Context, ...watchdog.Event) error { return m.err }

func TestAPolicyResumes(t *testing.T) {
	t.Run("a cancelled run up to so many times", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.put("s-1", time.Hour)
			var resumes []int
			b.cfg.Resume = sweep.ResumePolicy{Max: 2, Start: func(ctx context.Context, s session.Session) error {
				require.Equal(b, session.Cancelled, b.status(s.RunID))
				resumes = append(resumes, s.Resumes)
				_, _, err := b.Attach(ctx, session.Session{RunID: s.RunID, StartedAt: time.Now()})
				return err
			}}
			for range 4 {
				b.pass()
				b.after(11 * time.Minute)
			}
			require.Equal(b, []int{0, 1}, resumes)
			require.Equal(b, []string{"s-1", "s-1", "s-1"}, b.ended())
			row, err := b.Session(b.Context(), "s-1")
			require.NoError(b, err)
			require.Equal(b, session.Cancelled, row.Status)
			require.Equal(b, 2, row.Resumes)
			require.Equal(b, 2, b.the().Stats().Resumed)
		})
	})
	t.Run("and one that cannot be started has used one of its times", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.put("s-1", time.Hour)
			b.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error { panic("no worker") }}
			p, err := b.the().Sweep(b.Context())
			require.ErrorContains(b, err, "resume run s-1: it panicked with a string")
			require.Equal(b, sweep.Tally{Checked: 1, Found: 1, Cancelled: 1, Errors: 1}, p.Tally)
			require.False(b, p.Cases[0].Resumed)
		})
	})
	t.Run("none that was spared", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.put("s-1", time.Hour)
			b.onCancel = func(context.Context, session.Session) error {
				return b.End(b.Context(), []session.Ending{{RunID: "s-1", Attempt: 1, Status: session.Finished}})
			}
			b.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error { b.Error("resumed"); return nil }}
			require.Equal(b, []string{"s-1 spared"}, outcomes(b.pass()))
		})
	})
}

func TestAnAlert(t *testing.T) {
	t.Run("comes once when more are cancelled within a time than are not worth one, and again after there were fewer", func(t *testing.T) {
		inBed(t, func(b *bed) {
			var alerts []int
			b.cfg.Alert = sweep.Alert{Count: 3, Within: time.Hour, Func: func(_ context.Context, n int) { alerts = append(alerts, n) }}
			b.putStalled(3)
			b.pass()
			require.Empty(b, alerts)
			b.after(time.Hour) // they still count
			b.putStalled(3)
			b.pass()
			require.Equal(b, []int{4}, alerts)
			b.after(time.Hour + 1)
			b.putStalled(3)
			b.pass()
			require.Equal(b, []int{4}, alerts, "the first six count no more")
			b.putStalled(10)
			b.pass()
			require.Equal(b, []int{4, 4}, alerts)
		})
	})
	t.Run("may panic", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(2)
			b.cfg.Alert = sweep.Alert{Within: time.Hour, Func: func(context.Context, int) { panic("pager") }}
			p, err := b.the().Sweep(b.Context())
			require.ErrorContains(b, err, "alert of 1 cancels: it panicked with a string")
			require.Equal(b, 2, p.Cancelled)
		})
	})
}

func TestAnObserverIsGivenEveryPass(t *testing.T) {
	inBed(t, func(b *bed) {
		b.putStalled(1)
		var passes []sweep.Pass
		b.cfg.OnPass = func(p sweep.Pass) { passes = append(passes, p) }
		b.cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(2 * time.Second); return nil }
		p := b.pass()
		require.Equal(b, []sweep.Pass{p}, passes)
		require.Equal(b, 2*time.Second, p.Duration)
		b.onStalled = func(context.Context, session.Query) error { return errors.New("down") }
		_, err := b.the().Sweep(b.Context())
		require.Error(b, err)
		require.ErrorContains(b, passes[1].Err, "down")
	})
	t.Run("also that which a stop ended, and is waited for", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.StartupDelay = watchdog.None
			b.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			told := false
			b.cfg.OnPass = func(sweep.Pass) { time.Sleep(10 * time.Second); told = true }
			b.run()()
			require.True(b, told)
		})
	})
	t.Run("and may hang", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.putStalled(1)
			free := make(chan struct{})
			defer close(free)
			b.cfg.OnPass = func(sweep.Pass) { <-free }
			b.pass()
			require.Contains(b, b.log.String(), `"callback":"OnPass"`)
		})
	})
}
