package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
)

func TestKeeperConfig(t *testing.T) {
	store := &session.Memory{}
	for says, cfg := range map[string]session.KeeperConfig{
		"set Store":             {},
		"Threshold is -1ns":     {Store: store, Threshold: -1},
		"Pace is -1ns":          {Store: store, Pace: -1},
		"RecordTimeout is -1ns": {Store: store, RecordTimeout: -1},
		"Poll is -2ns; use a positive duration, or 0 for the default": {Store: store, Poll: -2},
		"Promise is 999.999999ms":                                     {Store: store, Promise: time.Second - 1},
		"Promise is 5m0.000000001s; use at least 1s and at most 5m0s": {Store: store, Promise: 5*time.Minute + 1},
		"Pace is 15.000000001s, and Threshold only 1m0s; use at most a quarter": {
			Store: store, Threshold: time.Minute, Pace: 15*time.Second + 1,
		},
		"Pace is 1s, and Threshold only 1s": {Store: store, Threshold: time.Second},
	} {
		t.Run(says, func(t *testing.T) {
			_, err := session.NewKeeper(cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, says)
		})
	}
	err := store.BeginLease(t.Context(), session.Lease{ID: "l-1", Promise: time.Hour, Beat: 1})
	require.ErrorContains(t, err, "begin lease l-1: the promise is 1h0m0s; use at most 5m0s")
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

// TestNotRunning protects a run from a sweeper that takes it for lost, because nobody called the keeper's Run.
func TestNotRunning(t *testing.T) {
	begin := func(f *fixture, k *session.Keeper) error {
		began := time.Now()
		wd, err := f.try("s-1", f.config(k))
		if err != nil {
			require.Equal(f, f.cfg.RecordTimeout, time.Since(began), "as long as any call of the keeper's")
			require.ErrorContains(f, err, "call its Run in a goroutine before New")
			return err
		}
		return wd.Close()
	}
	inBubble := func(name string, test func(f *fixture, k *session.Keeper)) {
		subtest(t, name, func(f *fixture) {
			f.cfg.RecordTimeout = 3 * time.Second
			k, err := session.NewKeeper(f.cfg)
			require.NoError(f, err)
			test(f, k)
		})
	}
	inBubble("a run is not begun without Run", func(f *fixture, k *session.Keeper) {
		require.Error(f, begin(f, k))
		_, err := f.db.Session(context.Background(), "s-1")
		require.ErrorIs(f, err, session.ErrNotFound)
	})
	inBubble("nor after Run has returned", func(f *fixture, k *session.Keeper) {
		f.run(k)()
		require.Error(f, begin(f, k))
	})
	inBubble("one that begins just before Run waits for it", func(f *fixture, k *session.Keeper) {
		began := make(chan error, 1)
		go func() { began <- begin(f, k) }()
		time.Sleep(time.Second)
		defer f.run(k)()
		require.NoError(f, <-began)
	})
	inBubble("of two that call Run the last to return counts", func(f *fixture, k *session.Keeper) {
		first, second := f.run(k), f.run(k)
		first()
		require.NoError(f, begin(f, k))
		second()
		require.Error(f, begin(f, k))
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
			_, err := f.try("s-1", f.config(f.keeper()))
			require.ErrorIs(f, err, watchdog.ErrInvalid)
			require.Zero(f, f.keeper().Live())
		})
	}
	running(t, "a resume writes the start of its fresh window", func(f *fixture) {
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
		_, err := f.try("s-1", f.config(f.keeper()))
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
		running(t, name, func(f *fixture) {
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
	running(t, "the stop of a run around it is not its own stop", func(f *fixture) {
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
		events, err := f.db.Memory.Read(context.Background(), event.AggregateType, "s-1")
		require.NoError(f, err)
		for _, e := range events {
			if e.Type == event.Interrupt {
				n++
			}
		}
		return n
	}
	running(t, "no attempt of this process is lost, whether its end is written or not", func(f *fixture) {
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
	running(t, "of two with one number, because the row was deleted, the later is kept", func(f *fixture) {
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
	running(t, "a run that another host took over ends at once, and its end is not written", func(f *fixture) {
		wd := f.attach("s-1")
		f.advance(time.Minute)
		begun := time.Now()
		other := f.attachTo(f.newKeeper("there"), "s-1")
		require.True(f, other.Attempt().Lost)
		synctest.Wait()
		require.Equal(f, begun, time.Now())
		takeover := f.requireTaken(wd)
		require.Equal(f, session.TakeoverError{RunID: "s-1", Attempt: 1, By: 2, Host: "there"}, *takeover)
		require.ErrorContains(f, takeover, `attempt 1 was followed by attempt 2 on host "there"`)
		require.Zero(f, f.keeper().Live())
		require.Equal(f, 1, f.logged("a run was taken over by another process"))
		wd.Close()
		f.advance(time.Minute)
		require.Equal(f, session.Active, f.row("s-1").Status)
		require.Equal(f, 2, f.row("s-1").Attempt)
	})
}

// TestHandover protects that who attaches after Close or Complete has returned finds the run ended.
func TestHandover(t *testing.T) {
	for name, end := range map[string]func(wd *watchdog.Watchdog) error{
		"closed":   (*watchdog.Watchdog).Close,
		"complete": (*watchdog.Watchdog).Complete,
	} {
		running(t, "a run that is "+name+" is not lost", func(f *fixture) {
			there := f.newKeeper("there")
			defer f.run(there)()
			for range 20 {
				wd := f.attach("s-1")
				require.NoError(f, end(wd))
				require.Equal(f, session.Finished, f.row("s-1").Status)
				f.advance(20 * time.Millisecond)
				run := watchdog.Run{ID: "s-1", StartedAt: wd.StartedAt()}
				next, err := watchdog.Resume(context.Background(), run, f.config(there))
				require.NoError(f, err)
				require.False(f, next.Attempt().Lost)
				require.NoError(f, next.Close())
			}
		})
	}
	running(t, "many that end at once are written together", func(f *fixture) {
		const runs = 1000
		all := make([]*watchdog.Watchdog, runs)
		for i := range all {
			all[i] = f.attach(name(i))
		}
		f.db.delay("End", 100*time.Millisecond)
		f.db.takeCounts()
		for _, wd := range all {
			go func() { _ = wd.Close() }()
		}
		f.advance(500 * time.Millisecond)
		for i := range all {
			require.Equal(f, session.Finished, f.row(name(i)).Status)
		}
		require.LessOrEqual(f, f.db.taken("End"), 4)
	})
	running(t, "a database that hangs is waited for within the record timeout, and once it is known to fail not at all",
		func(f *fixture) {
			first, second := f.attach("s-1"), f.attach("s-2")
			f.db.onCall(func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) })
			begun := time.Now()
			require.NoError(f, first.Close())
			require.LessOrEqual(f, time.Since(begun), watchdog.DefaultRecordTimeout)
			f.advance(2 * watchdog.DefaultRecordTimeout)
			begun = time.Now()
			require.NoError(f, second.Close())
			require.Equal(f, begun, time.Now())
			f.db.onCall(nil)
			f.advance(2 * watchdog.DefaultRecordTimeout)
			require.Equal(f, session.Finished, f.row("s-1").Status)
			require.Equal(f, session.Finished, f.row("s-2").Status)
		})
	running(t, "an attach that begins meanwhile is not ended by it", func(f *fixture) {
		f.db.delay("End", time.Second)
		wd := f.attach("s-1")
		go func() { _ = wd.Close() }()
		synctest.Wait()
		next := f.attach("s-1")
		f.advance(time.Minute)
		require.Equal(f, session.Active, f.row("s-1").Status)
		require.Equal(f, 1, f.keeper().Live())
		f.requireRunning(next)
	})
}

// TestCancelledBeforeAttach protects a run whose cancel comes between the reading of its events and its row.
func TestCancelledBeforeAttach(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		there := f.newKeeper("there")
		defer f.run(there)()
		start := f.attach("s-1").StartedAt()
		f.db.onCall(func(_ context.Context, call string) error {
			if call == "Attach" {
				f.cancel("s-1")
			}
			return nil
		})
		begun := time.Now()
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: start}, f.config(there))
		require.NoError(t, err)
		defer wd.Close()
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.SessionIdleTimeout)
		require.Equal(t, begun, time.Now())
		f.advance(time.Second)
		row := f.row("s-1")
		require.Equal(t, session.Cancelled, row.Status)
		require.Equal(t, watchdog.SessionIdleTimeout, row.Reason)
	})
}

// lockedFor has each attach wait for a lock in vain, as a store does, until a time has gone by.
func (f *fixture) lockedFor(d time.Duration) {
	until := time.Now().Add(d)
	f.db.onCall(func(ctx context.Context, call string) error {
		if call != "Attach" || !time.Now().Before(until) {
			return nil
		}
		select {
		case <-time.After(session.LockWait):
			return session.ErrLocked
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// TestAttachLocked: a run begins though another transaction has locked its row for a while.
func TestAttachLocked(t *testing.T) {
	subtest(t, "waits until the row is free", func(f *fixture) {
		f.lockedFor(4 * time.Second)
		began := time.Now()
		f.attach("s-1")
		require.Less(f, time.Since(began), 5*time.Second)
		require.Equal(f, session.Active, f.row("s-1").Status)
		require.LessOrEqual(f, f.db.taken("Attach"), 8, "with pauses")
	})
	subtest(t, "for no longer than the record timeout, and then says why", func(f *fixture) {
		f.lockedFor(time.Hour)
		for _, limit := range []time.Duration{300 * time.Millisecond, 3 * time.Second} {
			f.cfg.RecordTimeout = limit
			began := time.Now()
			_, err := f.try("s-1", f.config(f.newKeeper("here")))
			require.ErrorIs(f, err, context.DeadlineExceeded)
			require.Equal(f, limit, time.Since(began))
			if limit > session.LockWait {
				require.ErrorIs(f, err, session.ErrLocked)
			}
		}
	})
}

// away has every call of the store fail at once for so long.
func (f *fixture) away(d time.Duration) {
	back := time.Now().Add(d)
	f.db.onCall(func(context.Context, string) error {
		if time.Now().Before(back) {
			return errDown
		}
		return nil
	})
}

// stopped starts the keeper, which is stopped by the func, which returns what Run returned.
func (f *fixture) stopped() (stop func() error) {
	k := f.keeper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	synctest.Wait()
	return func() error { cancel(); return <-done }
}

// TestLastWrite protects that the work of runs which were closed is not done again: the keeper's last write goes on
// until the rows say how the runs ended, or says how many do not.
func TestLastWrite(t *testing.T) {
	const runs = 20
	subtest(t, "goes on when the store is back after two seconds", func(f *fixture) {
		f.cfg.Promise = session.ShortestPromise
		stop := f.stopped()
		all := f.attachSome("s-", runs)
		f.advance(time.Minute)
		f.away(2 * time.Second)
		for _, wd := range all {
			require.NoError(f, wd.Close())
		}
		f.db.takeCounts()
		began := time.Now()
		require.NoError(f, stop())
		require.Less(f, time.Since(began), 4*time.Second)
		for i := range runs {
			require.Equal(f, session.Finished, f.row(name(i)).Status)
		}
		require.Empty(f, f.leases())
		require.Less(f, f.db.taken("End"), 10, "with pauses, and all together")
	})
	subtest(t, "says how many ends are not written when the store stays away, and why, also if it hangs", func(f *fixture) {
		stop := f.stopped()
		all := f.attachSome("s-", runs)
		hangs := time.Now().Add(2*watchdog.DefaultRecordTimeout - 2*time.Second)
		f.db.onCall(func(ctx context.Context, _ string) error {
			if time.Now().Before(hangs) {
				return errDown
			}
			<-ctx.Done()
			return ctx.Err()
		})
		for _, wd := range all {
			require.NoError(f, wd.Close())
		}
		began := time.Now()
		err := stop()
		require.Equal(f, 2*watchdog.DefaultRecordTimeout, time.Since(began))
		require.ErrorIs(f, err, errDown)
		require.ErrorContains(f, err, "the ends of 20 runs are not written")
		require.Equal(f, runs, f.keeper().Live())
	})
	subtest(t, "says it of rows that stay locked or are refused, and has written the others", func(f *fixture) {
		f.db.locked["s-1"], f.db.refused["s-2"] = true, true
		stop := f.stopped()
		for i := range 4 {
			f.attach(name(i)).Close()
		}
		err := stop()
		require.ErrorContains(f, err, "the ends of 2 runs are not written")
		require.Equal(f, session.Finished, f.row("s-0").Status)
		require.Equal(f, session.Finished, f.row("s-3").Status)
		require.Less(f, len(f.db.attempts["s-2"]), 30, "with pauses")
	})
	subtest(t, "waits for each row that is locked by itself, also behind one that stays locked", func(f *fixture) {
		f.db.stuck = "s-0"
		stop := f.stopped()
		for i := range runs {
			f.db.locked[name(i)] = true
			f.attach(name(i)).Close()
		}
		f.db.change(func() { f.db.patient, f.db.alone = true, nil }) // now a lock ends while a row alone is waited for
		require.ErrorContains(f, stop(), "the end of 1 run is not written")
		require.Equal(f, session.Active, f.row("s-0").Status)
		for i := 1; i < runs; i++ {
			require.Equal(f, session.Finished, f.row(name(i)).Status, name(i))
			require.Contains(f, f.db.alone, name(i))
		}
	})
	subtest(t, "waits for the event of a run that was cancelled", func(f *fixture) {
		stop := f.stopped()
		wd := f.attach("s-1")
		f.db.fail("Append", "Transact")
		f.advance(watchdog.DefaultWallClock + time.Minute)
		require.Error(f, wd.Close())
		time.AfterFunc(2*time.Second, func() { f.db.onCall(nil) })
		require.NoError(f, stop())
		require.Equal(f, session.Cancelled, f.row("s-1").Status)
		require.Equal(f, watchdog.WallClockExceeded, f.row("s-1").Reason)
	})
	subtest(t, "keeps the lease meanwhile: the process lives", func(f *fixture) {
		f.cfg.Promise = session.ShortestPromise
		f.db.locked["s-1"] = true
		stop := f.stopped()
		f.attach("s-1").Close()
		ended := make(chan error)
		go func() { ended <- stop() }()
		f.advance(time.Second)
		before := f.lease(f.row("s-1").Lease).Beat
		f.advance(5 * time.Second)
		require.Greater(f, f.lease(f.row("s-1").Lease).Beat, before+10)
		f.db.change(func() { clear(f.db.locked) })
		require.NoError(f, <-ended)
		require.Empty(f, f.leases())
	})
	subtest(t, "is over at once when there is nothing to write", func(f *fixture) {
		stop := f.stopped()
		f.away(time.Hour)
		began := time.Now()
		require.NoError(f, stop())
		require.Zero(f, time.Since(began))
	})
}

// TestKeptStart: a run whose host leaves its start to the store has that of its row, as long as it is active.
func TestKeptStart(t *testing.T) {
	subtest(t, "of an active row", func(f *fixture) {
		began := time.Now()
		f.attach("s-1")
		time.Sleep(time.Hour)
		start, err := f.keeper().Start(f.Context(), "s-1")
		require.NoError(f, err)
		require.Equal(f, began.UTC(), start)
	})
	subtest(t, "not of one that has ended, nor of none", func(f *fixture) {
		w := f.attach("s-1")
		require.NoError(f, w.Complete())
		for _, run := range []string{"s-1", "s-2"} {
			start, err := f.keeper().Start(f.Context(), run)
			require.NoError(f, err)
			require.Zero(f, start)
		}
	})
	subtest(t, "an error of the store is its own", func(f *fixture) {
		f.db.onCall(func(context.Context, string) error { return errDown })
		_, err := f.keeper().Start(f.Context(), "s-1")
		require.ErrorIs(f, err, errDown)
		require.ErrorContains(f, err, "read when run s-1 began: ")
	})
}
