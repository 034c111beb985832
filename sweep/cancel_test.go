package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestStopHook(t *testing.T) {
	subtest(t, "comes before the cancel, with the session as it was judged", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.StopHook = func(_ context.Context, s session.Session) error {
			require.Equal(f, session.Active, f.status(s.RunID))
			require.Equal(f, "there", s.Host)
			return nil
		}
		require.Equal(f, []string{"s-1 cancelled"}, outcomes(f.pass()))
	})
	for name, c := range map[string]struct {
		hook func(ctx context.Context) error
		says string
		took time.Duration
	}{
		"fails": {
			func(context.Context) error { return errors.New("no such agent") }, "no such agent", 0,
		},
		"panics": {
			func(context.Context) error { panic(errors.New("a secret")) }, "it panicked with a *errors.errorString", 0,
		},
		"ends its goroutine": {
			func(context.Context) error { runtime.Goexit(); return nil }, "it ended its goroutine", 0,
		},
		"hangs": {
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			"context deadline exceeded", 30 * time.Second,
		},
		"hangs and returns nil": {
			func(ctx context.Context) error { <-ctx.Done(); return nil }, "", 30 * time.Second,
		},
		"never returns": {
			func(context.Context) error { time.Sleep(time.Hour); return nil },
			"it has not returned and is left behind", 31 * time.Second,
		},
	} {
		subtest(t, name+": the session and the next one are cancelled all the same", func(f *fixture) {
			f.putStalled(2)
			f.cfg.StopHook = func(ctx context.Context, s session.Session) error {
				if s.RunID == "s-00" {
					return c.hook(ctx)
				}
				return nil
			}
			began := time.Now()
			p, err := f.sweeper().Sweep(f.Context())
			require.Equal(f, c.took, time.Since(began))
			require.Equal(f, []string{"s-00 cancelled", "s-01 cancelled"}, outcomes(p))
			require.Equal(f, time.Hour+c.took, p.Cases[0].Silence)
			events, readErr := f.Read(f.Context(), watchdog.AggregateType, "s-00")
			require.NoError(f, readErr)
			require.Equal(f, began.Add(c.took).UTC(), events[1].Timestamp)
			if c.says == "" {
				require.NoError(f, err)
				return
			}
			require.ErrorContains(f, err, "stop what works on run s-00: ")
			require.ErrorContains(f, err, c.says)
			require.NotContains(f, err.Error(), "secret")
			require.Equal(f, sweep.Tally{Checked: 2, Found: 2, Cancelled: 2, Errors: 1}, p.Tally)
			f.advance(time.Hour)
		})
	}
}

func TestResumePolicy(t *testing.T) {
	subtest(t, "a run is resumed up to Max times", func(f *fixture) {
		f.put("s-1", time.Hour)
		var resumes []int
		f.cfg.Resume = sweep.ResumePolicy{Max: 2, Start: func(ctx context.Context, s session.Session) error {
			row, err := f.Session(ctx, s.RunID)
			require.NoError(f, err)
			s.EndedAt, s.Start.Due = row.EndedAt, row.Start.Due
			require.Equal(f, row, s)
			resumes = append(resumes, s.Resumes)
			_, _, err = f.Attach(ctx, session.Session{RunID: s.RunID, StartedAt: time.Now()})
			return err
		}}
		for range 4 {
			f.pass()
			f.advance(11 * time.Minute)
		}
		require.Equal(f, []int{1, 2}, resumes)
		require.Equal(f, []string{"s-1", "s-1", "s-1"}, f.ended())
		row := f.get("s-1")
		require.Equal(f, session.Cancelled, row.Status)
		require.Equal(f, 2, row.Resumes)
		require.Equal(f, 2, f.sweeper().Stats().Resumed)
	})
	subtest(t, "a start that panics has failed", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error {
			panic("no worker")
		}}
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, "resume run s-1: it panicked with a string")
		require.Equal(f, sweep.Tally{Checked: 1, Found: 1, Cancelled: 1, Errors: 1}, p.Tally)
		require.False(f, p.Cases[0].Resumed)
	})
	subtest(t, "a spared session is not resumed", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.onCancel = func(context.Context, session.Session) error {
			_, err := f.End(f.Context(), []session.Ending{{RunID: "s-1", Attempt: 1, Status: session.Finished}})
			return err
		}
		f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error {
			f.Error("resumed")
			return nil
		}}
		require.Equal(f, []string{"s-1 spared"}, outcomes(f.pass()))
	})
}

// TestLocked checks that a session whose row another transaction has locked is neither cancelled nor a failure.
func TestLocked(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.putStalled(12)
		f.cfg.MaxCancellationsPerRun = 1
		f.onCancel = func(_ context.Context, s session.Session) error {
			if s.RunID != "s-11" {
				return fmt.Errorf("cancel: %w", session.ErrLocked)
			}
			return nil
		}
		p := f.pass()
		require.NoError(f, p.Err, "ten failures in a row would end the pass")
		require.Equal(f, sweep.Tally{Checked: 12, Found: 12, Cancelled: 1, Deferred: 11}, p.Tally)
		f.onCancel = nil
		require.Equal(f, []string{"s-00 cancelled"}, outcomes(f.pass()), "at the next pass it is tried again")
	})
}
