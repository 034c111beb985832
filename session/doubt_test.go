package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// loseComplete has the run say that it is complete, which is stored, and the answer lost.
func loseComplete(f *fixture, wd *watchdog.Watchdog) {
	f.Helper()
	f.db.lose("Transact")
	require.ErrorIs(f, wd.Complete(), errDown)
	f.db.after = nil
	f.requireRunning(wd)
	events, err := f.db.Memory.Read(context.Background(), watchdog.AggregateType, wd.ID())
	require.NoError(f, err)
	require.Equal(f, watchdog.EventComplete, events[len(events)-1].Type)
}

// TestCompleteInDoubt protects that the row says what the events say of a run whose Complete was stored, and failed.
func TestCompleteInDoubt(t *testing.T) {
	complete := func(f *fixture, runID string) {
		f.Helper()
		require.Equal(f, session.Finished, f.row(runID).Status)
		require.Equal(f, watchdog.StopReason("complete"), f.row(runID).Reason)
	}
	for name, end := range map[string]func(f *fixture, wd *watchdog.Watchdog){
		"is closed": func(f *fixture, wd *watchdog.Watchdog) { require.NoError(f, wd.Close()) },
		"is interrupted": func(f *fixture, wd *watchdog.Watchdog) {
			require.NoError(f, wd.Interrupt("SIGTERM"))
			require.NoError(f, wd.Close())
		},
		"is complete with the next try": func(f *fixture, wd *watchdog.Watchdog) { require.NoError(f, wd.Complete()) },
	} {
		subtest(t, "a run that "+name+" then is complete in its row at once", func(f *fixture) {
			f.start()
			wd := f.attach("s-1")
			loseComplete(f, wd)
			end(f, wd)
			complete(f, "s-1")
			require.Zero(f, f.keeper().Live())
		})
	}
	subtest(t, "a run whose command failed says so in its row", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.db.lose("Transact")
		err := handle.Of(wd.Context()).CompleteCommand(record.CommandEnd{Outcome: "failed"})
		require.ErrorIs(f, err, errDown)
		f.db.after = nil
		require.NoError(f, wd.Close())
		complete(f, "s-1")
		require.True(f, f.row("s-1").Failed())
	})
	subtest(t, "a run whose limit is exceeded while the store is down is complete when it is up", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		loseComplete(f, wd)
		f.db.onCall(func(context.Context, string) error { return errDown })
		f.advance(watchdog.DefaultWallClock + 10*time.Second)
		require.ErrorIs(f, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		f.db.onCall(nil)
		f.advance(10 * time.Second)
		complete(f, "s-1")
		require.Zero(f, f.keeper().Live())
	})
	subtest(t, "the row of a run that is closed while the store cannot be read is written when it can", func(f *fixture) {
		f.start()
		wd, other := f.attach("s-1"), f.attach("s-2")
		loseComplete(f, wd)
		f.db.fail("Read")
		require.NoError(f, wd.Close())
		f.advance(time.Minute)
		require.Equal(f, session.Active, f.row("s-1").Status)
		require.NoError(f, other.Close())
		f.advance(session.DefaultPromise / 2)
		require.Equal(f, session.Finished, f.row("s-2").Status, "it is not in doubt")
		f.db.onCall(nil)
		f.advance(session.DefaultPromise / 2)
		complete(f, "s-1")
	})
	subtest(t, "a run whose Complete was not stored is finished when it is closed", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.db.hang("Transact")
		require.ErrorIs(f, wd.Complete(), context.DeadlineExceeded)
		require.NoError(f, wd.Close())
		require.Equal(f, session.Finished, f.row("s-1").Status)
		require.Empty(f, f.row("s-1").Reason)
	})
	subtest(t, "many that are closed at once are all complete", func(f *fixture) {
		f.start()
		var all []*watchdog.Watchdog
		for i := range 250 {
			all = append(all, f.attach(name(i)))
			loseComplete(f, all[i])
		}
		for _, wd := range all {
			go wd.Close()
		}
		f.advance(5 * time.Second)
		for i := range all {
			complete(f, name(i))
		}
	})
}

// A refusingStore does not take resume events.
type refusingStore struct{ watchdog.EventStore }

var errRefused = errors.New("disk full")

func (s refusingStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if events[0].Type == watchdog.EventResume {
		return errRefused
	}
	return s.EventStore.Append(ctx, events...)
}

// TestResumeFails protects the row of a cancelled run: the events and the row say the same, also when the run could not
// be resumed.
func TestResumeFails(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.advance(watchdog.DefaultWallClock + 1)
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		f.advance(session.DefaultPromise / 2)
		require.Equal(t, session.Cancelled, f.row("s-1").Status)

		cfg := f.config(f.keeper())
		cfg.Store = refusingStore{cfg.Store}
		_, err := watchdog.Resume(context.Background(), watchdog.Run{ID: "s-1", StartedAt: wd.StartedAt()}, cfg)
		require.ErrorIs(t, err, errRefused)
		f.advance(2*session.DefaultPace + time.Second)
		row := f.row("s-1")
		require.Equal(t, session.Cancelled, row.Status)
		require.Equal(t, watchdog.WallClockExceeded, row.Reason)
	})
}
