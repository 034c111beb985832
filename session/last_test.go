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
	t.Run("goes on when the store is back after two seconds", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
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
				require.NoError(t, wd.Close())
			}
			f.db.takeCounts()
			began := time.Now()
			require.NoError(t, stop())
			require.Less(t, time.Since(began), 4*time.Second)
			for i := range runs {
				require.Equal(t, session.Finished, f.row(name(i)).Status)
			}
			require.Empty(t, f.leases())
			calls, _ := f.db.takeCounts()
			require.Less(t, calls["End"], 10, "with pauses, and all together")
		})
	})
	t.Run("says how many ends are not written when the store stays away", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			k := f.newKeeper("here")
			stop := f.stopped(k)
			var all []*watchdog.Watchdog
			for i := range runs {
				all = append(all, f.attachTo(k, name(i)))
			}
			f.away(time.Hour)
			for _, wd := range all {
				require.NoError(t, wd.Close())
			}
			began := time.Now()
			err := stop()
			require.Equal(t, 2*watchdog.DefaultRecordTimeout, time.Since(began))
			require.ErrorIs(t, err, errDown)
			require.ErrorContains(t, err, "the ends of 20 runs are not written")
			require.Equal(t, runs, k.Live())
		})
	})
	t.Run("says it of rows that stay locked or are refused, and has written the others", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			c := &contended{
				database: f.db, locked: map[string]bool{"s-1": true}, refused: map[string]bool{"s-2": true},
				attempts: map[string][]time.Time{},
			}
			f.cfg.Store = c
			k := f.newKeeper("here")
			stop := f.stopped(k)
			for i := range 4 {
				f.attachTo(k, name(i)).Close()
			}
			err := stop()
			require.ErrorContains(t, err, "the ends of 2 runs are not written")
			require.Equal(t, session.Finished, f.row("s-0").Status)
			require.Equal(t, session.Finished, f.row("s-3").Status)
			require.Less(t, len(c.attempts["s-2"]), 30, "with pauses")
		})
	})
	t.Run("waits for each row that is locked by itself, also behind one that stays locked", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			c := &contended{
				database: f.db, locked: map[string]bool{}, refused: map[string]bool{}, attempts: map[string][]time.Time{},
				stuck: "s-0",
			}
			f.cfg.Store = c
			k := f.newKeeper("here")
			stop := f.stopped(k)
			for i := range runs {
				c.locked[name(i)] = true
				f.attachTo(k, name(i)).Close()
			}
			c.change(func() { c.patient, c.alone = true, nil }) // from now on a lock ends while a row alone is waited for
			require.ErrorContains(t, stop(), "the end of 1 run is not written")
			require.Equal(t, session.Active, f.row("s-0").Status)
			for i := 1; i < runs; i++ {
				require.Equal(t, session.Finished, f.row(name(i)).Status, name(i))
				require.Contains(t, c.alone, name(i))
			}
		})
	})
	t.Run("goes on when a row is refused for a while", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			c := &contended{
				database: f.db, locked: map[string]bool{}, refused: map[string]bool{"s-1": true}, attempts: map[string][]time.Time{},
			}
			f.cfg.Store = c
			k := f.newKeeper("here")
			stop := f.stopped(k)
			f.attachTo(k, "s-1").Close()
			time.AfterFunc(3*time.Second, func() { c.change(func() { clear(c.refused) }) })
			require.NoError(t, stop())
			require.Equal(t, session.Finished, f.row("s-1").Status)
		})
	})
	t.Run("waits for the event of a run that was cancelled", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			k := f.newKeeper("here")
			stop := f.stopped(k)
			cfg := f.config(k)
			events := &failingStore{EventStore: f.db}
			cfg.Store = events
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
			require.NoError(t, err)
			events.fails.Store(true)
			f.advance(watchdog.DefaultWallClock + time.Minute)
			require.Error(t, wd.Close())
			time.AfterFunc(2*time.Second, func() { events.fails.Store(false) })
			require.NoError(t, stop())
			require.Equal(t, session.Cancelled, f.row("s-1").Status)
			require.Equal(t, watchdog.WallClockExceeded, f.row("s-1").Reason)
		})
	})
	t.Run("keeps the lease meanwhile: the process lives", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.cfg.Promise = session.ShortestPromise
			c := &contended{
				database: f.db, locked: map[string]bool{"s-1": true}, refused: map[string]bool{}, attempts: map[string][]time.Time{},
			}
			f.cfg.Store = c
			k := f.newKeeper("here")
			stop := f.stopped(k)
			f.attachTo(k, "s-1").Close()
			ended := make(chan error)
			go func() { ended <- stop() }()
			f.advance(time.Second)
			before := f.lease(f.row("s-1").Lease).Beat
			f.advance(5 * time.Second)
			require.Greater(t, f.lease(f.row("s-1").Lease).Beat, before+10)
			c.change(func() { clear(c.locked) })
			require.NoError(t, <-ended)
			require.Empty(t, f.leases())
		})
	})
	t.Run("is over at once when there is nothing to write", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			stop := f.stopped(f.newKeeper("here"))
			f.away(time.Hour)
			began := time.Now()
			require.NoError(t, stop())
			require.Zero(t, time.Since(began))
		})
	})
	t.Run("gives an error that is of the store, and no more than one", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			k := f.newKeeper("here")
			stop := f.stopped(k)
			wd := f.attachTo(k, "s-1")
			f.db.onCall(func(ctx context.Context, call string) error {
				if call == "End" {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				return nil
			})
			require.NoError(t, wd.Close())
			began := time.Now()
			err := stop()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "the end of 1 run is not written")
			require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout)
		})
	})
}
