package session_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// TestHandover protects that who attaches after Close or Complete has returned finds the run ended.
func TestHandover(t *testing.T) {
	for name, end := range map[string]func(wd *watchdog.Watchdog) error{
		"closed":   (*watchdog.Watchdog).Close,
		"complete": (*watchdog.Watchdog).Complete,
	} {
		subtest(t, "a run that is "+name+" is not lost", func(f *fixture) {
			f.start()
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
	subtest(t, "many that end at once are written together", func(f *fixture) {
		f.start()
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
		calls, _ := f.db.takeCounts()
		require.LessOrEqual(f, calls["End"], 4)
	})
	subtest(t, "a database that hangs is waited for within the record timeout, and once it is known to fail not at all",
		func(f *fixture) {
			f.start()
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
	subtest(t, "an attach that begins meanwhile is not ended by it", func(f *fixture) {
		f.start()
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
		calls, _ := f.db.takeCounts()
		require.LessOrEqual(f, calls["Attach"], 8, "with pauses")
	})
	subtest(t, "for no longer than the record timeout, and then says why", func(f *fixture) {
		f.lockedFor(time.Hour)
		for _, limit := range []time.Duration{300 * time.Millisecond, 3 * time.Second} {
			f.cfg.RecordTimeout = limit
			began := time.Now()
			_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: began},
				f.config(f.newKeeper("here")))
			require.ErrorIs(f, err, context.DeadlineExceeded)
			require.Equal(f, limit, time.Since(began))
			if limit > session.LockWait {
				require.ErrorIs(f, err, session.ErrLocked)
			}
		}
	})
	subtest(t, "another error is returned at once", func(f *fixture) {
		f.db.onCall(func(_ context.Context, call string) error {
			if call == "Attach" {
				return session.ErrUnreadable
			}
			return nil
		})
		began := time.Now()
		_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: began}, f.config(f.keeper()))
		require.ErrorIs(f, err, session.ErrUnreadable)
		require.Zero(f, time.Since(began))
	})
}

// A lateParent has ended before its Done says so, as the contexts of some frameworks do.
type lateParent struct {
	context.Context
	ended atomic.Bool
	done  chan struct{}
}

func (p *lateParent) Done() <-chan struct{} { return p.done }

func (p *lateParent) Err() error {
	if p.ended.Load() {
		return context.Canceled
	}
	return nil
}

// TestKeeperCallback protects a host that asks the keeper from a callback of a run: a look of the keeper's can end a
// run with its parent, and so call the host. Real time, because a mutex that nobody unlocks stops a bubble for ever.
func TestKeeperCallback(t *testing.T) {
	keeper, err := session.NewKeeper(session.KeeperConfig{
		Store: &session.Memory{}, Threshold: time.Minute, Pace: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- keeper.Run(ctx) }()

	parent := &lateParent{Context: context.Background(), done: make(chan struct{})}
	asked := make(chan struct{})
	wd, err := watchdog.New(parent, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Keeper: keeper, Logger: slog.New(slog.DiscardHandler),
		OnSignal: func(s watchdog.Signal) {
			if s.Kind == watchdog.SignalEnd {
				keeper.Live()
				close(asked)
			}
		},
	})
	require.NoError(t, err)
	parent.ended.Store(true)
	select {
	case <-asked:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the keeper holds its mutex while it asks its runs")
	}
	require.NoError(t, wd.Close())
	close(parent.done)
	stop()
	require.NoError(t, <-ran)
}
