package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func TestKeeperConfig(t *testing.T) {
	store := &session.Memory{}
	for name, cfg := range map[string]session.KeeperConfig{
		"without a store":                         {},
		"negative threshold":                      {Store: store, Threshold: -1},
		"negative pace":                           {Store: store, Pace: -1},
		"negative poll":                           {Store: store, Poll: -1},
		"negative record timeout":                 {Store: store, RecordTimeout: -1},
		"promise shorter than the shortest":       {Store: store, Promise: time.Second - 1},
		"promise longer than the longest":         {Store: store, Promise: 5*time.Minute + 1},
		"fewer than four paces in a threshold":    {Store: store, Threshold: time.Minute, Pace: 15*time.Second + 1},
		"threshold shorter than the default pace": {Store: store, Threshold: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := session.NewKeeper(cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
		})
	}
	t.Run("what is negative is named", func(t *testing.T) {
		_, err := session.NewKeeper(session.KeeperConfig{Store: store, Pace: time.Second, Poll: -2})
		require.ErrorContains(t, err, "Poll is -2ns; use a positive duration, or 0 for the default")
	})
	t.Run("a promise that is too long is named with what is allowed", func(t *testing.T) {
		_, err := session.NewKeeper(session.KeeperConfig{Store: store, Promise: time.Hour})
		require.ErrorContains(t, err, "Promise is 1h0m0s; use at least 1s and at most 5m0s")
		err = store.BeginLease(t.Context(), session.Lease{ID: "l-1", Promise: time.Hour, Beat: 1})
		require.ErrorContains(t, err, "begin lease l-1: the promise is 1h0m0s; use at most 5m0s")
	})
	t.Run("no threshold, a pace of a quarter of it, and the longest promise are valid", func(t *testing.T) {
		for _, cfg := range []session.KeeperConfig{
			{Store: store, Threshold: watchdog.NoLimit}, {Store: store, Threshold: time.Minute, Pace: 15 * time.Second},
			{Store: store, Promise: session.LongestPromise}, {Store: store, Promise: session.ShortestPromise},
		} {
			_, err := session.NewKeeper(cfg)
			require.NoError(t, err)
		}
	})
}

// TestAttach: an attach begins an attempt in the row.
func TestAttach(t *testing.T) {
	subtest(t, "makes a row with the run, the host and the time", func(f *fixture) {
		f.attach("s-1")
		now := time.Now().UTC()
		row := f.row("s-1")
		require.NotEmpty(f, row.Lease)
		require.JSONEq(f, `{"wall_clock_seconds":14400}`, string(row.State))
		require.Equal(f, session.Session{
			RunID: "s-1", Status: session.Active, CreatedAt: now, LastEventAt: now, StartedAt: now, Host: "here", Attempt: 1,
			Lease: row.Lease, Activity: session.NoActivity, State: row.State,
		}, row)
		require.Equal(f, 1, f.keeper().Live())
	})
	subtest(t, "the new row is not written again before it is behind", func(f *fixture) {
		f.start()
		f.advance(time.Hour)
		f.db.takeCounts()
		wd := f.attach("s-1")
		f.advance(time.Minute - time.Second)
		wd.Activity()
		f.advance(time.Second)
		calls, _ := f.db.takeCounts()
		require.Zero(f, calls["Freshen"])
	})
	subtest(t, "the row has the parent and the run's own threshold", func(f *fixture) {
		f.cfg.RunThreshold = func(runID string) time.Duration {
			return map[string]time.Duration{
				"s-1": time.Hour, "s-2": watchdog.NoLimit, "s-3": 4 * session.DefaultPace,
			}[runID]
		}
		for i := range 4 {
			run := watchdog.Run{ID: name(i), StartedAt: time.Now(), Parent: "p"}
			wd, err := watchdog.New(context.Background(), run, f.config(f.keeper()))
			require.NoError(f, err)
			defer wd.Close()
		}
		require.Equal(f, "p", f.row("s-0").Parent)
		require.Zero(f, f.row("s-0").Threshold)
		require.Equal(f, time.Hour, f.row("s-1").Threshold)
		require.Equal(f, time.Duration(watchdog.NoLimit), f.row("s-2").Threshold)
	})
	for name, own := range map[string]time.Duration{"negative": -1, "too short for the pace": 4*time.Second - 1} {
		subtest(t, "fails if the run's own threshold is "+name, func(f *fixture) {
			f.cfg.RunThreshold = func(string) time.Duration { return own }
			_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, f.config(f.keeper()))
			require.ErrorIs(f, err, watchdog.ErrInvalid)
			require.Zero(f, f.keeper().Live())
		})
	}
	subtest(t, "a resume writes the start of its fresh window", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		start := wd.StartedAt()
		f.advance(time.Minute)
		f.cancel("s-1")
		f.advance(time.Minute)
		f.requireCancelled(wd)
		run := watchdog.Run{ID: "s-1", StartedAt: start}
		resumed, err := watchdog.Resume(context.Background(), run, f.config(f.keeper()))
		require.NoError(f, err)
		defer resumed.Close()
		row := f.row("s-1")
		require.Equal(f, start.Add(2*time.Minute), row.StartedAt)
		require.Equal(f, start, row.CreatedAt)
		require.Equal(f, session.Active, row.Status)
		require.Empty(f, row.Reason)
		require.Equal(f, watchdog.Attempt{Number: 2, Stopped: true}, resumed.Attempt())
		f.advance(time.Minute)
		f.requireRunning(resumed)
	})
	subtest(t, "fails if the database hangs", func(f *fixture) {
		f.db.hang("Attach")
		f.cfg.RecordTimeout = time.Second
		begun := time.Now()
		_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: begun}, f.config(f.keeper()))
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.ErrorContains(f, err, "begin an attempt of run s-1")
		require.Equal(f, time.Second, time.Since(begun))
		require.Zero(f, f.keeper().Live())
	})
}

// TestEnd: the row says how the run ended.
func TestEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(f *fixture, wd *watchdog.Watchdog, endParent context.CancelFunc)
		status session.Status
		reason watchdog.StopReason
	}{
		"closed": {
			func(_ *fixture, wd *watchdog.Watchdog, _ context.CancelFunc) { wd.Close() }, session.Finished, "",
		},
		"complete, and then closed": {
			func(_ *fixture, wd *watchdog.Watchdog, _ context.CancelFunc) {
				_ = wd.Complete()
				wd.Close()
			}, session.Finished, "complete",
		},
		"stopped by a limit": {
			func(f *fixture, _ *watchdog.Watchdog, _ context.CancelFunc) { f.advance(watchdog.DefaultWallClock + 1) },
			session.Cancelled, watchdog.WallClockExceeded,
		},
		"stopped by a guard": {
			func(_ *fixture, wd *watchdog.Watchdog, _ context.CancelFunc) {
				_, _ = wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput})
			}, session.Cancelled, watchdog.CommandNoOutput,
		},
		"interrupted": {
			func(_ *fixture, wd *watchdog.Watchdog, _ context.CancelFunc) { _ = wd.Interrupt("SIGINT") },
			session.Interrupted, "",
		},
		"with its parent": {
			func(_ *fixture, _ *watchdog.Watchdog, endParent context.CancelFunc) { endParent() },
			session.Interrupted, "",
		},
		"not, while it is live": {
			func(f *fixture, _ *watchdog.Watchdog, _ context.CancelFunc) { f.advance(time.Hour) }, session.Active, "",
		},
	} {
		subtest(t, name, func(f *fixture) {
			f.start()
			ctx, endParent := context.WithCancel(context.Background())
			defer endParent()
			wd, err := watchdog.New(ctx, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, f.config(f.keeper()))
			require.NoError(f, err)
			defer wd.Close()
			c.end(f, wd, endParent)
			f.advance(session.DefaultPromise / 2) // nothing new for a minute: it is looked at with a renewal
			require.Equal(f, c.status, f.row("s-1").Status)
			require.Equal(f, c.reason, f.row("s-1").Reason)
			require.Equal(f, c.status == session.Active, f.keeper().Live() == 1)
		})
	}
	subtest(t, "soon, also at the longest promise", func(f *fixture) {
		f.cfg.Promise = session.LongestPromise
		f.start()
		f.attach("s-1")
		f.advance(watchdog.DefaultWallClock + 1)
		f.advance(session.DefaultPromise / 2)
		require.Equal(f, session.Cancelled, f.row("s-1").Status)
	})
	subtest(t, "the stop of a run around it is not its own stop", func(f *fixture) {
		f.start()
		outer := f.attach("s-1")
		inner, err := watchdog.New(outer.Context(), watchdog.Run{ID: "s-2", StartedAt: time.Now()}, f.config(f.keeper()))
		require.NoError(f, err)
		defer inner.Close()
		_, err = outer.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput})
		require.NoError(f, err)
		f.advance(time.Second)
		require.Equal(f, session.Cancelled, f.row("s-1").Status)
		require.Equal(f, session.Interrupted, f.row("s-2").Status)
		require.Empty(f, f.row("s-2").Reason)
	})
}

func TestAttempts(t *testing.T) {
	lost := func(f *fixture) (n int) {
		events, err := f.db.Memory.Read(context.Background(), watchdog.AggregateType, "s-1")
		require.NoError(f, err)
		for _, e := range events {
			if e.Type == watchdog.EventInterrupt {
				n++
			}
		}
		return n
	}
	subtest(t, "no attempt of this process is lost, whether its end is written or not", func(f *fixture) {
		f.start()
		f.attach("s-1").Close()
		require.Equal(f, watchdog.Attempt{Number: 2}, f.attach("s-1").Attempt())
		wd := f.attach("s-1")
		require.Equal(f, watchdog.Attempt{Number: 3}, wd.Attempt())
		f.advance(time.Minute)
		require.Equal(f, 1, f.keeper().Live(), "the latest")
		require.Equal(f, session.Active, f.row("s-1").Status)
		wd.Close()
		f.advance(time.Second)
		require.Equal(f, session.Finished, f.row("s-1").Status)
		require.Zero(f, lost(f))
	})
	subtest(t, "of two with one number, because the row was deleted, the later is kept", func(f *fixture) {
		f.start()
		first := f.attach("s-1")
		require.NoError(f, f.db.Delete(context.Background(), "s-1"))
		second := f.attach("s-1")
		require.Equal(f, watchdog.Attempt{Number: 1}, second.Attempt())
		first.Close()
		f.advance(time.Minute)
		require.Equal(f, session.Active, f.row("s-1").Status)
		second.Close()
		require.Equal(f, session.Finished, f.row("s-1").Status)
	})
	subtest(t, "the attempt of another host in between is lost if that died", func(f *fixture) {
		f.attach("s-1")
		f.attachTo(f.newKeeper("there"), "s-1")
		require.Equal(f, watchdog.Attempt{Number: 3, Lost: true}, f.attach("s-1").Attempt())
		require.Equal(f, 2, lost(f))
	})
	subtest(t, "of two that begin at once, the later is kept", func(f *fixture) {
		slow := true
		f.db.after = func(call string) error {
			if call == "Attach" && slow {
				slow = false
				time.Sleep(time.Second) // fake time
			}
			return nil
		}
		f.start()
		first := make(chan *watchdog.Watchdog)
		go func() { first <- f.attach("s-1") }()
		synctest.Wait()
		second := f.attach("s-1")
		require.Equal(f, 1, (<-first).Attempt().Number)
		require.Equal(f, 2, second.Attempt().Number)
		second.Close()
		f.advance(time.Second)
		require.Equal(f, session.Finished, f.row("s-1").Status)
	})
	subtest(t, "a run that another host took over ends at once, and its end is not written", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.advance(time.Minute)
		begun := time.Now()
		other := f.attachTo(f.newKeeper("there"), "s-1")
		require.True(f, other.Attempt().Lost)
		synctest.Wait()
		require.Equal(f, begun, time.Now())
		var takeover *session.TakeoverError
		require.ErrorAs(f, context.Cause(wd.Context()), &takeover)
		require.Equal(f, session.TakeoverError{RunID: "s-1", Attempt: 1, By: 2, Host: "there"}, *takeover)
		require.ErrorContains(f, takeover, `attempt 1 was followed by attempt 2 on host "there"`)
		require.Zero(f, f.keeper().Live())
		require.Equal(f, 1, f.log.count("a run was taken over by another process"))
		wd.Close()
		f.advance(time.Minute)
		require.Equal(f, session.Active, f.row("s-1").Status)
		require.Equal(f, 2, f.row("s-1").Attempt)
	})
}
