package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

func TestListenFails(t *testing.T) {
	subtest(t, "the keeper polls until it listens again", func(f *fixture) {
		f.db.fail("Listen")
		f.start()
		first, second := f.attach("s-1"), f.attach("s-2")
		f.advance(10 * time.Minute)
		require.Equal(f, 1, f.log.count("polling for them"))
		calls, _ := f.db.takeCounts()
		require.Less(f, calls["Listen"], 30)
		f.cancel("s-1")
		f.advance(session.DefaultPoll)
		f.requireCancelled(first)
		f.db.onCall(nil)
		f.advance(30 * time.Second)
		require.Equal(f, 1, f.log.count("works again"))
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
			calls, _ := f.db.takeCounts()
			require.Equal(f, 1, calls["Listen"])
		}
		f.cancel("s-1")
		synctest.Wait()
		f.requireCancelled(wd)
		require.Equal(f, 4, f.log.count("polling for them"))
		require.Equal(f, 4, f.log.count("works again"))
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
