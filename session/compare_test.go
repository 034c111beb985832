package session_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
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
		require.Equal(f, 2, f.logged("the row of a run was lost and is made again"))
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
		require.Zero(f, f.logged("are ended"))
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
		require.Zero(f, f.logged("is made again"))
	})
	running(t, "a run that is closed while its row is read was not taken over", func(f *fixture) {
		wd := f.attach("s-1")
		f.db.delay("Session", 2*time.Second)
		f.attachTo(f.newKeeper("there"), "s-1") // this process is told
		f.advance(time.Second)
		require.NoError(f, wd.Close())
		require.Zero(f, f.keeper().Live())
		f.advance(time.Minute)
		require.Zero(f, f.logged("taken over"))
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
	events, err := f.db.Memory.Read(context.Background(), event.AggregateType, wd.ID())
	require.NoError(f, err)
	require.Equal(f, event.Complete, events[len(events)-1].Type)
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

// What a row said last can be lost with a server. The keeper writes it again.
func TestRowsOfOlderDatabase(t *testing.T) {
	const minute = time.Minute
	running(t, "a run that woke up is not silent", func(f *fixture) {
		w := f.attach("run-1")
		w.Activity()
		time.Sleep(session.DefaultThreshold - minute/3)
		standby := f.db.now().Clone()
		w.Activity()
		time.Sleep(minute / 12)
		f.db.promote(standby)
		for range 50 { // in which it has nothing new
			time.Sleep(time.Second)
			require.Empty(f, f.stalled())
		}
	})
	running(t, "nor one that woke up while no renewal worked", func(f *fixture) {
		w := f.attach("run-1")
		w.Activity()
		time.Sleep(session.DefaultThreshold - session.DefaultPromise/4) // less than a renewal
		f.db.broken.Store(true)
		standby := f.db.now().Clone()
		time.Sleep(session.DefaultPromise / 3)
		require.False(f, f.db.broken.Load())
		w.Activity()
		time.Sleep(2 * session.DefaultPace)
		f.db.serving.Store(standby)
		for range 200 {
			require.Empty(f, f.stalled())
			time.Sleep(session.DefaultPace / 10)
		}
	})
	running(t, "a run that fell silent is", func(f *fixture) {
		w := f.attach("run-1")
		standby := f.db.now().Clone()
		w.Activity()
		time.Sleep(2 * minute)
		f.db.promote(standby)
		time.Sleep(session.DefaultThreshold - 3*minute)
		require.Empty(f, f.stalled())
		time.Sleep(2 * minute)
		require.Len(f, f.stalled(), 1)
	})
	running(t, "a run says what it does", func(f *fixture) {
		w := f.attach("run-1")
		standby := f.db.now().Clone()
		require.NoError(f, w.Extend(minute))
		w.Activity()
		time.Sleep(2 * minute)
		want := string(f.row("run-1").State)
		f.db.promote(standby)
		time.Sleep(minute)
		require.Equal(f, want, string(f.row("run-1").State))
	})
}

// A database that came back older counts attempts again. The end of a run whose attempt is lost is not that of the run
// which has the number now.
func TestAttemptOfOlderDatabase(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		first := f.attach("run-1")
		require.NoError(f, first.Close())
		time.Sleep(time.Minute + session.DefaultPace/2) // no flush writes the end as well
		standby := f.db.now().Clone()
		lost := f.attach("run-1")
		require.Equal(f, 2, lost.Attempt().Number)
		var live *watchdog.Watchdog
		f.db.promote(standby)
		f.db.onEnd(func() {
			live = f.attach("run-1")
		})
		require.NoError(f, lost.Close())
		require.Equal(f, 2, live.Attempt().Number)
		for range 10 {
			time.Sleep(time.Minute / 2)
			live.Activity()
		}
		require.Equal(f, 1, f.keeper().Live())
		require.Equal(f, session.Active, f.row("run-1").Status)
	})
}

// An end can wait for others to be written, and its attempt be lost meanwhile. The run that has the number by then lives
// on, and is kept.
func TestEndOfOlderDatabase(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		first := f.attach("run-1")
		var lost, live *watchdog.Watchdog
		var closing sync.WaitGroup
		f.db.onEnd(func() {
			standby := f.db.now().Clone()
			lost = f.attach("run-1")
			closing.Go(func() { _ = lost.Close() })
			synctest.Wait() // it waits for the first end
			f.db.promote(standby)
			live = f.attach("run-1")
		})
		require.NoError(f, first.Close())
		closing.Wait()
		require.Equal(f, lost.Attempt().Number, live.Attempt().Number)
		require.Equal(f, session.Active, f.row("run-1").Status)
		require.Equal(f, 1, f.keeper().Live())
	})
}

// A row that could not be written, and was written right before the server was lost, is behind again. While nothing can
// be written there, the lease still names it.
func TestBehindOfOlderDatabase(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		var locked atomic.Bool
		f.db.Locked = func(string) bool { return locked.Load() }
		w := f.attach("run-1")
		w.Activity()
		time.Sleep(session.DefaultThreshold - time.Minute)
		locked.Store(true)
		w.Activity()
		time.Sleep(2 * time.Minute)
		standby := f.db.now().Clone()
		locked.Store(false)
		time.Sleep(session.DefaultPromise / 2)
		f.db.fail("Freshen")
		f.db.promote(standby)
		for range 30 {
			time.Sleep(time.Second)
			require.Empty(f, f.stalled())
		}
		f.db.onCall(nil)
		time.Sleep(session.DefaultPromise)
	})
}
