package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// dieBeside begins a host that dies at once with its runs, beside others that live until stop is called, and lets the
// time go by after which those runs have been silent for too long.
func (f *fixture) dieBeside(runs, living int) (stop func()) {
	f.Helper()
	f.newHost("dead", runs)
	var stops []func()
	for i := range living {
		stops = append(stops, f.newHost(fmt.Sprint("live-", i), 1).live())
	}
	f.advance(11 * time.Minute)
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// TestLost: the sessions of a process that was seen to die while others live count toward no cap.
func TestLost(t *testing.T) {
	subtest(t, "all are cancelled by the pass that finds them, in pages", func(f *fixture) {
		f.cfg.MaxCancellationsPerMinute = 10
		b := f.inBatches()
		defer f.dieBeside(400, 1)()
		p := f.pass()
		require.Equal(f, sweep.Tally{
			Checked: 400, Found: 400, Cancelled: 400, Lost: 400, LeasesExpired: 1,
		}, p.Tally)
		require.False(f, p.FleetDied)
		require.LessOrEqual(f, len(b.calls), 6)
		for _, names := range b.calls {
			require.LessOrEqual(f, len(names), 100)
		}
		require.Equal(f, 10, f.takesPass(10, 20), "the rate has not counted them")
		_, page := f.health()
		require.Contains(f, page, `"lost": 400`)
	})
	subtest(t, "and also one by one, where the canceller can do no more", func(f *fixture) {
		defer f.dieBeside(200, 1)()
		require.Equal(f, 200, f.pass().Cancelled)
	})
	subtest(t, "those that only look stalled are still as many as the cap, before and behind them", func(f *fixture) {
		f.putStalled(30)
		f.inBatches()
		defer f.dieBeside(150, 2)()
		for i := range 30 {
			f.put(fmt.Sprintf("t-%02d", i), 10*time.Minute+30*time.Second)
		}
		p := f.pass()
		require.Equal(f, 160, p.Cancelled)
		require.Equal(f, 150, p.Lost)
		p = f.pass()
		require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, p.Tally)
	})
	subtest(t, "they stay lost for the sweepers to come", func(f *fixture) {
		dead := f.newHost("dead", 100)
		defer f.newHost("live", 1).live()()
		f.advance(time.Minute)
		require.Equal(f, sweep.Tally{LeasesExpired: 1}, f.pass().Tally, "they are not stalled yet")
		dead.renew()
		f.advance(10 * time.Minute)
		next, err := sweep.New(f, f, f.cfg)
		require.NoError(f, err)
		p, err := next.Sweep(f.Context())
		require.NoError(f, err)
		require.Equal(f, 100, p.Lost)
	})
	subtest(t, "unless a process claims them back", func(f *fixture) {
		f.newHost("dead", 100)
		live := f.newHost("live", 1)
		stop := live.live()
		f.advance(time.Minute)
		f.pass()
		for i := range 50 {
			live.signal(true, fmt.Sprintf("dead-%03d", i))
		}
		f.advance(11 * time.Minute)
		p := f.pass()
		require.Equal(f, 60, p.Cancelled, "of those that were claimed back the lease vouches for the silence")
		require.Equal(f, 50, p.Lost)
		stop()
	})
	subtest(t, "each is warned first, and has its grace", func(f *fixture) {
		f.cfg.Grace = time.Minute
		f.inBatches()
		f.putStalled(12)
		defer f.dieBeside(150, 1)()
		require.Equal(f, 160, f.pass().Warned)
		f.advance(time.Minute)
		p := f.pass()
		require.Equal(f, 160, p.Cancelled)
		require.Equal(f, 150, p.Lost)
	})
	subtest(t, "a dry run says so", func(f *fixture) {
		defer f.dieBeside(100, 1)()
		f.cfg.MinAge = 20 * time.Minute
		f.pass()
		f.advance(10 * time.Minute)
		f.putStalled(20)
		f.cfg.DryRun, f.made = true, nil
		require.Len(f, f.pass().Cases, 110)
	})
	for name, set := range map[string]func(f *fixture){
		"stop hooks": func(f *fixture) { f.cfg.StopHook = func(context.Context, session.Session) error { return nil } },
		"starts": func(f *fixture) {
			f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error { return nil }}
		},
	} {
		subtest(t, name+" stay limited", func(f *fixture) {
			set(f)
			b := f.inBatches()
			defer f.dieBeside(30, 1)()
			p := f.pass()
			require.Equal(f, 10, p.Cancelled)
			require.Zero(f, p.Lost)
			require.Empty(f, b.calls)
		})
	}
	subtest(t, "those that have no start left are cancelled together", func(f *fixture) {
		f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error { return nil }}
		b := f.inBatches()
		for i := range 30 {
			f.row(session.Session{RunID: fmt.Sprintf("dead-%03d", i), Attempt: 1, CreatedAt: time.Now(), Resumes: i % 2})
		}
		defer f.dieBeside(30, 1)()
		p := f.pass()
		require.Equal(f, 10, p.Resumed)
		require.Equal(f, 15, p.Lost)
		require.Equal(f, 25, p.Cancelled)
		require.NotEmpty(f, b.calls)
	})
	subtest(t, "a page that is refused is halved", func(f *fixture) {
		poisoned := errors.New("poisoned")
		b := f.inBatches()
		defer f.dieBeside(210, 1)()
		b.onAll = func(all []session.BatchedCancel) error {
			if has(all, "dead-050") {
				return poisoned
			}
			return nil
		}
		alone := 0
		f.onCancel = func(_ context.Context, s session.Session) error {
			if alone++; s.RunID == "dead-050" {
				return poisoned
			}
			return nil
		}
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, poisoned)
		require.Equal(f, 209, p.Cancelled)
		require.Equal(f, 1, p.Failed)
		require.LessOrEqual(f, alone, 10)
		require.Len(f, slices.Compact(slices.Sorted(slices.Values(f.ended()))), 209)
		require.Equal(f, 1, f.sweeper().Remembered())
	})
	subtest(t, "a database that is locked ends the pass, which comes again soon", func(f *fixture) {
		f.cfg.StartupDelay = watchdog.None
		b := f.inBatches()
		defer f.dieBeside(300, 1)()
		free := time.Now().Add(40 * time.Second)
		b.onAll = func([]session.BatchedCancel) error {
			if time.Now().After(free) {
				return nil
			}
			time.Sleep(time.Second) // fake time
			return fmt.Errorf("busy: %w", session.ErrLocked)
		}
		f.onCancel = func(context.Context, session.Session) error { return b.onAll(nil) }
		defer f.run()()
		f.advance(40 * time.Second)
		require.Empty(f, f.ended())
		f.advance(10 * time.Second)
		require.Len(f, f.ended(), 300)
	})
	subtest(t, "a full pass looks for them no longer than it may, and the next goes on there", func(f *fixture) {
		for i := range 1500 {
			f.put(fmt.Sprintf("s-%04d", i), time.Hour)
		}
		f.inBatches()
		defer f.dieBeside(150, 1)()
		f.onStalled = func(context.Context, session.Query) error { time.Sleep(3 * time.Second); return nil } // fake
		lost := 0
		for range 6 {
			p := f.pass()
			require.Equal(f, 10, p.Cancelled-p.Lost)
			require.Less(f, p.Duration, 90*time.Second)
			lost += p.Lost
		}
		require.Equal(f, 150, lost)
	})
}

// takesPass puts sessions that only look stalled, and returns how many of them a pass cancels.
func (f *fixture) takesPass(silent, count int) int {
	f.Helper()
	for i := range count {
		f.put(fmt.Sprintf("silent-%02d", i), time.Duration(silent+i+1)*time.Hour)
	}
	return f.pass().Cancelled
}
