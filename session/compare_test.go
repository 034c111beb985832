package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// TestStrayOfResume protects that a row which nobody runs says how the run ended before, if it is of a Resume whose
// answer was lost and whose window never opened.
func TestStrayOfResume(t *testing.T) {
	for name, end := range map[string]func(*fixture, *watchdog.Watchdog){
		"complete": func(f *fixture, wd *watchdog.Watchdog) { require.NoError(f, wd.Complete()) },
		"watchdog_wall_clock_exceeded": func(f *fixture, _ *watchdog.Watchdog) {
			f.advance(watchdog.DefaultWallClock + session.DefaultPromise/2)
		},
	} {
		running(t, name, func(f *fixture) {
			f.attach("s-0")
			wd := f.attach("s-1")
			end(f, wd)
			require.NoError(f, wd.Close())
			before := f.row("s-1")
			require.EqualValues(f, name, before.Reason)
			f.advance(time.Minute)
			f.db.lose("Attach")
			run := watchdog.Run{ID: "s-1", StartedAt: before.StartedAt}
			_, err := watchdog.Resume(context.Background(), run, f.config(f.keeper()))
			require.ErrorIs(f, err, errDown)
			f.db.after = nil
			require.Equal(f, session.Active, f.row("s-1").Status, "nobody runs it")
			f.advance(121 * time.Second)
			require.Equal(f, before.Status, f.row("s-1").Status)
			require.Equal(f, before.Reason, f.row("s-1").Reason)
		})
	}
}

// TestResumeInDoubt protects that the row of a Resume which failed, and whose window was opened all the same, does not
// say how the window before ended.
func TestResumeInDoubt(t *testing.T) {
	for name, lost := range map[string]string{
		"the answer to the resume": "Append", "what was read after it": "Read",
	} {
		running(t, name, func(f *fixture) {
			f.attach("s-0")
			wd := f.attach("s-1")
			f.advance(watchdog.DefaultWallClock + session.DefaultPromise/2)
			require.NoError(f, wd.Close())
			run := watchdog.Run{ID: "s-1", StartedAt: f.row("s-1").StartedAt}
			resumed := false
			f.db.onCall(func(_ context.Context, call string) error {
				if call == "Read" && resumed && lost == "Read" {
					return errDown
				}
				return nil
			})
			f.db.after = func(call string) error {
				resumed = resumed || call == "Append"
				if call == lost {
					return errDown
				}
				return nil
			}
			_, err := watchdog.Resume(context.Background(), run, f.config(f.keeper()))
			require.ErrorIs(f, err, errDown)
			f.db.after = nil
			f.db.onCall(nil)
			f.advance(121 * time.Second)
			require.Equal(f, session.Interrupted, f.row("s-1").Status)
			require.Empty(f, f.row("s-1").Reason)

			wd, err = watchdog.New(context.Background(), run, f.config(f.keeper()))
			require.NoError(f, err)
			f.requireRunning(wd)
			require.NoError(f, wd.Close())
		})
	}
}

// TestCompare protects the rows of a lease against what was lost on the way to the database, or in it.
func TestCompare(t *testing.T) {
	running(t, "the row of a live run that was deleted is made again", func(f *fixture) {
		quiet, lively := f.attach("s-1"), f.attach("s-2")
		f.attach("s-1")
		f.attach("s-1").Activity()
		f.advance(5 * time.Minute)
		require.NoError(f, f.db.Delete(context.Background(), "s-1"))
		require.NoError(f, f.db.Delete(context.Background(), "s-2"))
		busy(f, 70*time.Second, lively)
		for i, attempt := range map[int]int{1: 3, 2: 1} {
			row := f.row(name(i))
			require.Equal(f, session.Active, row.Status)
			require.Equal(f, attempt, row.Attempt)
			require.NotEmpty(f, row.Lease)
		}
		require.Equal(f, 2, f.log.count("the row of a run was lost and is made again"))
		f.requireRunning(quiet)
		f.requireRunning(lively)
	})
	running(t, "a row that went back to an earlier attempt is made again", func(f *fixture) {
		f.attach("s-1")
		older := f.row("s-1")
		wd := f.attach("s-1")
		older.Lease, older.Activity = "", 0
		require.NoError(f, f.db.Put(context.Background(), older))
		f.advance(70 * time.Second)
		require.Equal(f, 2, f.row("s-1").Attempt)
		f.requireRunning(wd)
	})
	running(t, "a row of an attach whose answer was lost is ended", func(f *fixture) {
		kept := f.attach("s-1")
		f.cfg.Store = f.db
		f.db.lose("Attach")
		_, err := f.try("s-2", f.config(f.keeper()))
		require.ErrorIs(f, err, errDown)
		f.db.after = nil
		require.Equal(f, session.Active, f.row("s-2").Status)
		f.advance(121 * time.Second)
		require.Equal(f, session.Interrupted, f.row("s-2").Status)
		require.Equal(f, session.Active, f.row("s-1").Status)
		f.requireRunning(kept)
	})
	running(t, "a run whose attach is not answered yet is left alone", func(f *fixture) {
		f.attach("s-0")
		f.db.after = func(string) error {
			time.Sleep(2 * time.Second) // fake time
			return nil
		}
		f.advance(time.Minute - time.Second) // the rows are compared after a minute
		wd := f.attach("s-1")
		f.db.after = nil
		f.advance(2 * time.Minute)
		f.requireRunning(wd)
		require.Equal(f, session.Active, f.row("s-1").Status)
		require.Zero(f, f.log.count("are ended"))
	})
	running(t, "a row that was deleted, and that another program makes first, is not made again", func(f *fixture) {
		wd := f.attach("s-1")
		row := f.row("s-1")
		require.NoError(f, f.db.Delete(context.Background(), "s-1"))
		row.Attempt, row.Lease, row.Activity = 2, "", 0
		f.db.onCall(func(ctx context.Context, call string) error {
			if call == "Attach" {
				return f.db.Put(ctx, row)
			}
			return nil
		})
		f.advance(70 * time.Second)
		f.requireTaken(wd)
		require.Zero(f, f.log.count("is made again"))
	})
	running(t, "a run that is closed while its row is read was not taken over", func(f *fixture) {
		wd := f.attach("s-1")
		f.db.delay("Session", 2*time.Second)
		f.attachTo(f.newKeeper("there"), "s-1") // this process is told
		f.advance(time.Second)
		require.NoError(f, wd.Close())
		require.Zero(f, f.keeper().Live())
		f.advance(time.Minute)
		require.Zero(f, f.log.count("taken over"))
	})
	running(t, "a run goes on whose process attaches to it again and has no answer yet", func(f *fixture) {
		first := f.attach("s-1")
		f.db.after = func(string) error {
			time.Sleep(2 * time.Second) // fake time: the row has the second attempt, and this process is told
			return nil
		}
		second := f.attach("s-1")
		f.db.after = nil
		f.advance(2 * time.Minute)
		f.requireRunning(first)
		f.requireRunning(second)
		require.Equal(f, 2, f.row("s-1").Attempt)
	})
	running(t, "a run ends that its process attached to again, if that answer was lost", func(f *fixture) {
		first := f.attach("s-1")
		f.db.after = func(string) error { return errDown }
		run := watchdog.Run{ID: "s-1", StartedAt: first.StartedAt()}
		_, err := watchdog.New(context.Background(), run, f.config(f.keeper()))
		require.ErrorIs(f, err, errDown)
		f.db.after = nil
		f.advance(time.Millisecond)
		f.requireTaken(first)
		require.Zero(f, f.keeper().Live())
		f.advance(121 * time.Second)
		require.Equal(f, session.Interrupted, f.row("s-1").Status)
	})
}

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
		running(t, "a run that "+name+" then is complete in its row at once", func(f *fixture) {
			wd := f.attach("s-1")
			loseComplete(f, wd)
			end(f, wd)
			complete(f, "s-1")
			require.Zero(f, f.keeper().Live())
		})
	}
	running(t, "a run whose command failed says so in its row", func(f *fixture) {
		wd := f.attach("s-1")
		f.db.lose("Transact")
		err := handle.Of(wd.Context()).CompleteCommand(record.CommandEnd{Outcome: "failed"})
		require.ErrorIs(f, err, errDown)
		f.db.after = nil
		require.NoError(f, wd.Close())
		complete(f, "s-1")
		require.True(f, f.row("s-1").Failed())
	})
	running(t, "a run whose limit is exceeded while the store is down is complete when it is up", func(f *fixture) {
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
	running(t, "the row of a run that is closed while the store cannot be read is written when it can", func(f *fixture) {
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
	running(t, "a run whose Complete was not stored is finished when it is closed", func(f *fixture) {
		wd := f.attach("s-1")
		f.db.hang("Transact")
		require.ErrorIs(f, wd.Complete(), context.DeadlineExceeded)
		require.NoError(f, wd.Close())
		require.Equal(f, session.Finished, f.row("s-1").Status)
		require.Empty(f, f.row("s-1").Reason)
	})
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

		f.db.fail("Append", "Transact")
		run := watchdog.Run{ID: "s-1", StartedAt: wd.StartedAt()}
		_, err := watchdog.Resume(context.Background(), run, f.config(f.keeper()))
		require.ErrorIs(t, err, errDown)
		f.db.onCall(nil)
		f.advance(2*session.DefaultPace + time.Second)
		row := f.row("s-1")
		require.Equal(t, session.Cancelled, row.Status)
		require.Equal(t, watchdog.WallClockExceeded, row.Reason)
	})
}
