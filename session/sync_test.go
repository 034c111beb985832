package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
)

// TestCancelFromElsewhere: the cancel of another process ends the run.
func TestCancelFromElsewhere(t *testing.T) {
	running(t, "at once, if the store is a Listener", func(f *fixture) {
		wd, other := f.attach("s-1"), f.attach("s-2")
		f.advance(time.Hour)
		begun := time.Now()
		f.cancel("s-1")
		synctest.Wait()
		require.Equal(f, begun, time.Now())
		f.requireCancelled(wd)
		f.requireRunning(other)
		f.advance(time.Minute)
		require.Equal(f, 1, f.keeper().Live())
		f.requireCancelled(wd) // the run's own end has not changed the row
		require.Zero(f, f.logged("level="))
	})
	subtest(t, "with the next poll, if it is not", func(f *fixture) {
		f.cfg.Store = pollOnly{f.db}
		f.start()
		wd := f.attach("s-1")
		f.advance(time.Hour + time.Millisecond)
		f.cancel("s-1")
		synctest.Wait()
		f.requireRunning(wd)
		f.advance(session.DefaultPoll)
		f.requireCancelled(wd)
	})
	running(t, "within a minute, if a notification is lost", func(f *fixture) {
		wd := f.attach("s-1")
		f.db.dropNotices = true
		f.advance(time.Millisecond)
		f.cancel("s-1")
		f.advance(time.Minute - 2*time.Millisecond)
		f.requireRunning(wd)
		f.advance(time.Millisecond)
		f.requireCancelled(wd)
	})
	for _, listen := range []bool{true, false} {
		subtest(t, fmt.Sprint("if the keeper runs only after it: ", listen), func(f *fixture) {
			if !listen {
				f.cfg.Store = pollOnly{f.db}
			}
			wd, other := f.attach("s-1"), f.attach("s-2")
			f.advance(time.Hour)
			f.cancel("s-1")
			fails := 1
			f.db.onCall(func(_ context.Context, call string) error {
				if call != "Ended" || fails == 0 {
					return nil
				}
				fails--
				return errDown
			})
			f.start()
			f.advance(10 * time.Second)
			f.requireCancelled(wd)
			f.requireRunning(other)
			require.Zero(t, f.db.taken("Freshen"), "the store tells of the one that was cancelled")
		})
	}
	subtest(t, "when the keeper writes the row, if neither a notification nor a poll came before", func(f *fixture) {
		f.cfg.Store, f.cfg.Poll = pollOnly{f.db}, time.Hour
		f.start()
		wd := f.attach("s-1")
		f.advance(11 * time.Minute)
		f.cancel("s-1")
		wd.Activity()
		f.advance(awake)
		f.requireCancelled(wd)
		require.NotEqual(f, time.Now().UTC(), f.shown("s-1"))
	})
	running(t, "of many runs sixteen read the store at once", func(f *fixture) {
		var all []*watchdog.Watchdog
		for i := range 7 * 16 {
			all = append(all, f.attach(name(i)))
		}
		f.advance(time.Hour)
		f.db.delay("Read", time.Second)
		for i := range all {
			f.cancel(name(i))
		}
		f.advance(7*time.Second - 1)
		ended := 0
		for _, wd := range all {
			if wd.Context().Err() != nil {
				ended++
			}
		}
		require.Equal(f, 6*16, ended)
		f.advance(1)
		for _, wd := range all {
			f.requireCancelled(wd)
		}
	})
}

func TestSyncFails(t *testing.T) {
	running(t, "is tried again until it succeeds, and logged once", func(f *fixture) {
		wd := f.attach("s-1")
		f.advance(time.Hour)
		f.db.fail("Read")
		f.cancel("s-1")
		f.advance(time.Minute)
		f.requireRunning(wd)
		require.Equal(f, 1, f.logged("a run cannot read the store for its cancel"))
		f.db.onCall(nil)
		f.advance(time.Second)
		f.requireCancelled(wd)
		f.db.takeCounts()
		f.advance(time.Minute)
		require.Zero(f, f.db.taken("Read"))
	})
	subtest(t, "is not logged if the keeper was stopped", func(f *fixture) {
		stop := f.run(f.keeper())
		wd := f.attach("s-1")
		f.db.hang("Read")
		f.cancel("s-1")
		f.advance(time.Second)
		stop()
		f.requireRunning(wd)
		require.Zero(f, f.logged("level="))
	})
	running(t, "is not tried every second if an event cannot be understood", func(f *fixture) {
		wd := f.attach("s-1")
		require.NoError(f, f.db.Append(context.Background(), watchdog.Event{
			ID: "1", AggregateType: event.AggregateType, AggregateID: "s-1", Type: event.Cancel,
			Payload: []byte(`{}`), Timestamp: time.Now(),
		}))
		f.cancel("s-1")
		f.advance(time.Second)
		f.db.takeCounts()
		f.advance(time.Minute)
		f.requireRunning(wd)
		require.LessOrEqual(f, f.db.taken("Read"), 2, "the poll and the comparison find it too")
		require.Equal(f, 1, f.logged("a run cannot read the store for its cancel"))
	})
	running(t, "is not tried for a run that has ended meanwhile", func(f *fixture) {
		wd := f.attach("s-1")
		require.NoError(f, wd.Interrupt("SIGTERM"))
		f.cancel("s-1")
		f.advance(time.Minute)
		require.Zero(f, f.logged("level="))
		require.Equal(f, session.Cancelled, f.row("s-1").Status)
	})
	running(t, "is logged again after a sync that succeeded", func(f *fixture) {
		wd := f.attach("s-1")
		f.finish("s-1")
		for n := 1; n < 3; n++ {
			f.db.fail("Session")
			f.advance(2 * time.Minute)
			wd.Activity()
			f.advance(time.Minute)
			require.Equal(f, n, f.logged("a run cannot read the store for its cancel"))
			f.db.onCall(nil)
			f.advance(time.Minute)
		}
		f.requireRunning(wd)
	})
}

func TestListenFails(t *testing.T) {
	subtest(t, "the keeper polls until it listens again", func(f *fixture) {
		f.db.fail("Listen")
		f.start()
		first, second := f.attach("s-1"), f.attach("s-2")
		f.advance(10 * time.Minute)
		require.Equal(f, 1, f.logged("polling for them"))
		require.Less(f, f.db.taken("Listen"), 30)
		f.cancel("s-1")
		f.advance(session.DefaultPoll)
		f.requireCancelled(first)
		f.db.onCall(nil)
		f.advance(30 * time.Second)
		require.Equal(f, 1, f.logged("works again"))
		f.cancel("s-2")
		synctest.Wait()
		f.requireCancelled(second)
	})
	subtest(t, "the first retry comes after a second, also after many failures before", func(f *fixture) {
		store := &cutListener{database: f.db}
		f.cfg.Store = store
		f.db.fail("Listen")
		f.start()
		wd := f.attach("s-1")
		f.advance(10 * time.Minute)
		f.db.onCall(nil)
		f.advance(time.Minute)
		for range 3 {
			f.db.takeCounts()
			store.cut()
			f.advance(time.Second)
			require.Equal(f, 1, f.db.taken("Listen"))
		}
		f.cancel("s-1")
		synctest.Wait()
		f.requireCancelled(wd)
		require.Equal(f, 4, f.logged("polling for them"))
		require.Equal(f, 4, f.logged("works again"))
	})
	subtest(t, "cancels while the connection was lost are not missed", func(f *fixture) {
		lost, ready := make(chan struct{}), make(chan struct{})
		f.cfg.Store = &lostListener{database: f.db, lost: lost, ready: ready}
		f.start()
		wd := f.attach("s-1")
		polled := f.attach("s-2")
		f.advance(time.Hour + time.Millisecond)
		close(lost)
		f.cancel("s-2")
		f.advance(session.DefaultPoll)
		f.requireCancelled(polled)
		f.cancel("s-1")
		begun := time.Now()
		close(ready)
		synctest.Wait()
		require.Equal(f, begun, time.Now())
		f.requireCancelled(wd)
	})
	subtest(t, "nor are they when the first poll fails after that", func(f *fixture) {
		lost, ready := make(chan struct{}), make(chan struct{})
		f.cfg.Store = &lostListener{database: f.db, lost: lost, ready: ready}
		f.start()
		wd := f.attach("s-1")
		f.advance(time.Hour + time.Millisecond)
		f.db.fail("Ended")
		close(lost)
		f.cancel("s-1")
		close(ready)
		f.advance(2 * session.DefaultPoll)
		f.requireRunning(wd)
		f.db.onCall(nil)
		f.advance(session.DefaultPoll)
		f.requireCancelled(wd)
	})
}

// cutListener is a database whose connection a test can cut.
type cutListener struct {
	*database
	cut context.CancelFunc
}

func (s *cutListener) Listen(ctx context.Context, ready func(), told func(string)) error {
	ctx, s.cut = context.WithCancel(ctx)
	return s.database.Listen(ctx, ready, told)
}

// lostListener is a database whose first connection is lost. The second is ready late and then tells of nothing.
type lostListener struct {
	*database
	lost, ready chan struct{}
	again       bool
}

func (s *lostListener) Listen(ctx context.Context, ready func(), told func(string)) error {
	if !s.again {
		s.again = true
		ready()
		<-s.lost
		return errDown
	}
	<-s.ready
	s.database.dropNotices = true
	return s.database.Listen(ctx, ready, told)
}

// TestEnded protects that a keeper is told of its own runs, and of each once.
func TestEnded(t *testing.T) {
	subtest(t, "a keeper reads only what others ended of its own runs", func(f *fixture) {
		f.cfg.Store = pollOnly{f.db}
		f.start()
		wd := f.attach("s-1")
		elsewhere := f.newKeeper("there")
		defer f.run(elsewhere)()
		for i := range 20 {
			require.NoError(f, f.attachTo(elsewhere, fmt.Sprint("other-", i)).Close())
		}
		finished := f.attach("s-2")
		require.NoError(f, finished.Complete())
		other := f.attachTo(elsewhere, "other")
		f.advance(time.Minute)
		require.Empty(f, f.db.asked, "nobody else ended anything")
		f.cancel("s-1")
		f.cancel("other")
		f.advance(2 * session.DefaultPoll)
		f.requireCancelled(wd)
		f.requireCancelled(other)
		f.advance(time.Minute)
		require.ElementsMatch(f, []string{
			"told [], ended [{s-1 1}]", "told [{s-1 1}], ended []",
			"told [], ended [{other 1}]", "told [{other 1}], ended []",
		}, f.db.asked)
	})
	subtest(t, "the ends of others leave nothing behind", func(f *fixture) {
		f.attach("s-1")
		for _, runID := range []string{"other", "s-1", "another"} {
			f.keeper().Told(runID)
		}
		require.Equal(f, 1, f.keeper().Requested())
	})
	subtest(t, "a run that is cancelled while this process still attaches to it ends at once", func(f *fixture) {
		f.db.after = func(string) error { time.Sleep(1200 * time.Millisecond); return nil } // at no tick
		f.start()
		go func() {
			time.Sleep(500 * time.Millisecond)
			f.cancel("s-1")
		}()
		wd := f.attach("s-1")
		f.advance(10 * time.Millisecond)
		f.requireCancelled(wd)
	})
}
