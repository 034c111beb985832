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

// stopped starts a keeper that is stopped by the func, which returns what Run returned.
func (f *fixture) stopped(k *session.Keeper) (stop func() error) {
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
		k := f.newKeeper("here")
		stop := f.stopped(k)
		var all []*watchdog.Watchdog
		for i := range runs {
			all = append(all, f.attachTo(k, name(i)))
		}
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
		calls, _ := f.db.takeCounts()
		require.Less(f, calls["End"], 10, "with pauses, and all together")
	})
	subtest(t, "says how many ends are not written when the store stays away", func(f *fixture) {
		k := f.newKeeper("here")
		stop := f.stopped(k)
		var all []*watchdog.Watchdog
		for i := range runs {
			all = append(all, f.attachTo(k, name(i)))
		}
		f.away(time.Hour)
		for _, wd := range all {
			require.NoError(f, wd.Close())
		}
		began := time.Now()
		err := stop()
		require.Equal(f, 2*watchdog.DefaultRecordTimeout, time.Since(began))
		require.ErrorIs(f, err, errDown)
		require.ErrorContains(f, err, "the ends of 20 runs are not written")
		require.Equal(f, runs, k.Live())
	})
	subtest(t, "says it of rows that stay locked or are refused, and has written the others", func(f *fixture) {
		c := newContended(f)
		c.locked["s-1"], c.refused["s-2"] = true, true
		f.cfg.Store = c
		k := f.newKeeper("here")
		stop := f.stopped(k)
		for i := range 4 {
			f.attachTo(k, name(i)).Close()
		}
		err := stop()
		require.ErrorContains(f, err, "the ends of 2 runs are not written")
		require.Equal(f, session.Finished, f.row("s-0").Status)
		require.Equal(f, session.Finished, f.row("s-3").Status)
		require.Less(f, len(c.attempts["s-2"]), 30, "with pauses")
	})
	subtest(t, "waits for each row that is locked by itself, also behind one that stays locked", func(f *fixture) {
		c := newContended(f)
		c.stuck = "s-0"
		f.cfg.Store = c
		k := f.newKeeper("here")
		stop := f.stopped(k)
		for i := range runs {
			c.locked[name(i)] = true
			f.attachTo(k, name(i)).Close()
		}
		c.change(func() { c.patient, c.alone = true, nil }) // from now on a lock ends while a row alone is waited for
		require.ErrorContains(f, stop(), "the end of 1 run is not written")
		require.Equal(f, session.Active, f.row("s-0").Status)
		for i := 1; i < runs; i++ {
			require.Equal(f, session.Finished, f.row(name(i)).Status, name(i))
			require.Contains(f, c.alone, name(i))
		}
	})
	subtest(t, "goes on when a row is refused for a while", func(f *fixture) {
		c := newContended(f)
		c.refused["s-1"] = true
		f.cfg.Store = c
		k := f.newKeeper("here")
		stop := f.stopped(k)
		f.attachTo(k, "s-1").Close()
		time.AfterFunc(3*time.Second, func() { c.change(func() { clear(c.refused) }) })
		require.NoError(f, stop())
		require.Equal(f, session.Finished, f.row("s-1").Status)
	})
	subtest(t, "waits for the event of a run that was cancelled", func(f *fixture) {
		k := f.newKeeper("here")
		stop := f.stopped(k)
		cfg := f.config(k)
		events := &failingStore{EventStore: f.db}
		cfg.Store = events
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
		require.NoError(f, err)
		events.fails.Store(true)
		f.advance(watchdog.DefaultWallClock + time.Minute)
		require.Error(f, wd.Close())
		time.AfterFunc(2*time.Second, func() { events.fails.Store(false) })
		require.NoError(f, stop())
		require.Equal(f, session.Cancelled, f.row("s-1").Status)
		require.Equal(f, watchdog.WallClockExceeded, f.row("s-1").Reason)
	})
	subtest(t, "keeps the lease meanwhile: the process lives", func(f *fixture) {
		f.cfg.Promise = session.ShortestPromise
		c := newContended(f)
		c.locked["s-1"] = true
		f.cfg.Store = c
		k := f.newKeeper("here")
		stop := f.stopped(k)
		f.attachTo(k, "s-1").Close()
		ended := make(chan error)
		go func() { ended <- stop() }()
		f.advance(time.Second)
		before := f.lease(f.row("s-1").Lease).Beat
		f.advance(5 * time.Second)
		require.Greater(f, f.lease(f.row("s-1").Lease).Beat, before+10)
		c.change(func() { clear(c.locked) })
		require.NoError(f, <-ended)
		require.Empty(f, f.leases())
	})
	subtest(t, "is over at once when there is nothing to write", func(f *fixture) {
		stop := f.stopped(f.newKeeper("here"))
		f.away(time.Hour)
		began := time.Now()
		require.NoError(f, stop())
		require.Zero(f, time.Since(began))
	})
	subtest(t, "gives an error that is of the store, and ends in time though that hangs", func(f *fixture) {
		k := f.newKeeper("here")
		stop := f.stopped(k)
		wd := f.attachTo(k, "s-1")
		f.db.hang("End")
		require.NoError(f, wd.Close())
		began := time.Now()
		err := stop()
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.ErrorContains(f, err, "the end of 1 run is not written")
		require.LessOrEqual(f, time.Since(began), 2*watchdog.DefaultRecordTimeout)
	})
}
