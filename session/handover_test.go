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
	t.Run("a database that hangs is waited for within the record timeout, and once it is known to fail not at all",
		func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.start()
				first, second := f.attach("s-1"), f.attach("s-2")
				f.db.onCall(func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) })
				begun := time.Now()
				require.NoError(t, first.Close())
				require.LessOrEqual(t, time.Since(begun), watchdog.DefaultRecordTimeout)
				f.advance(2 * watchdog.DefaultRecordTimeout)
				begun = time.Now()
				require.NoError(t, second.Close())
				require.Equal(t, begun, time.Now())
				f.db.onCall(nil)
				f.advance(2 * watchdog.DefaultRecordTimeout)
				require.Equal(t, session.Finished, f.row("s-1").Status)
				require.Equal(t, session.Finished, f.row("s-2").Status)
			})
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
