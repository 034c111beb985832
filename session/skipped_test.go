package session_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var errTrigger = errors.New("the host's trigger refuses it")

// A contended is a database of which others have locked some rows, and refuse some.
type contended struct {
	*database

	mu       sync.Mutex
	locked   map[string]bool
	patient  bool // a row alone is waited for, and its lock ends meanwhile
	refused  map[string]bool
	attempts map[string][]time.Time // when each run was tried
}

// change changes what others have locked or refuse.
func (c *contended) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// split returns the runs that are skipped. The others may be written.
func (c *contended) split(runs []string) (skipped session.Skipped, free map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	free, skipped.Refused = map[string]bool{}, map[string]error{}
	for _, runID := range runs {
		c.attempts[runID] = append(c.attempts[runID], time.Now())
		switch {
		case c.locked[runID] && !(c.patient && len(runs) == 1):
			skipped.Locked = append(skipped.Locked, runID)
		case c.refused[runID]:
			skipped.Refused[runID] = errTrigger
		default:
			free[runID] = true
		}
	}
	return skipped, free
}

func (c *contended) Freshen(ctx context.Context, fresh []session.Freshness) (session.Skipped, error) {
	var runs []string
	for _, f := range fresh {
		runs = append(runs, f.RunID)
	}
	skipped, free := c.split(runs)
	var kept []session.Freshness
	for _, f := range fresh {
		if free[f.RunID] {
			kept = append(kept, f)
		}
	}
	written, err := c.database.Freshen(ctx, kept)
	skipped.Gone = written.Gone
	return skipped, err
}

func (c *contended) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	var runs []string
	for _, e := range ends {
		runs = append(runs, e.RunID)
	}
	skipped, free := c.split(runs)
	var kept []session.Ending
	for _, e := range ends {
		if free[e.RunID] {
			kept = append(kept, e)
		}
	}
	_, err := c.database.End(ctx, kept)
	return skipped, err
}

// inContention runs a test whose keeper is on a contended database.
func inContention(t *testing.T, test func(f *fixture, c *contended)) {
	inBubble(t, func(f *fixture) {
		c := &contended{
			database: f.db, locked: map[string]bool{}, refused: map[string]bool{}, attempts: map[string][]time.Time{},
		}
		f.cfg.Store = c
		f.start()
		test(f, c)
	})
}

// busy has runs signal every second for so long.
func busy(f *fixture, long time.Duration, runs ...*watchdog.Watchdog) {
	for range int(long / time.Second) {
		for _, wd := range runs {
			wd.Activity()
		}
		f.advance(time.Second)
	}
}

// TestLockedRows checks that rows which others have locked hold up no others, and are written when they are free.
func TestLockedRows(t *testing.T) {
	t.Run("the others are kept fresh", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			locked, free := f.attach("s-1"), f.attach("s-2")
			c.change(func() { c.locked["s-1"] = true })
			busy(f, time.Hour, locked, free)
			require.LessOrEqual(t, time.Since(f.row("s-2").LastEventAt), time.Minute+time.Second)
			require.Greater(t, time.Since(f.row("s-1").LastEventAt), 58*time.Minute)
			c.change(func() { delete(c.locked, "s-1") })
			f.advance(2 * time.Second)
			require.Less(t, time.Since(f.row("s-1").LastEventAt), 4*time.Second)
			require.Zero(t, f.log.count("level=ERROR"), "it is no outage")
		})
	})
	t.Run("a row that is locked at every look is waited for alone", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			locked, free := f.attach("s-1"), f.attach("s-2")
			busy(f, time.Minute, locked, free)
			c.change(func() { c.locked["s-1"], c.patient = true, true })
			busy(f, 3*time.Minute, locked, free)
			require.LessOrEqual(t, time.Since(f.row("s-1").LastEventAt), time.Minute+15*time.Second)
		})
	})
	t.Run("a locked row of a run that has ended is written when it is free", func(t *testing.T) {
		inContention(t, func(f *fixture, c *contended) {
			locked, free := f.attach("s-1"), f.attach("s-2")
			c.change(func() { c.locked["s-1"] = true })
			locked.Close()
			free.Close()
			f.advance(time.Minute)
			require.Equal(t, session.Active, f.row("s-1").Status)
			require.Equal(t, session.Finished, f.row("s-2").Status)
			require.Equal(t, 1, f.keeper().Live())
			c.change(func() { delete(c.locked, "s-1") })
			f.advance(2 * time.Second)
			require.Equal(t, session.Finished, f.row("s-1").Status)
			require.Zero(t, f.keeper().Live())
		})
	})
	t.Run("the keeper's end waits for the locked rows of runs that have ended", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			c := &contended{
				database: f.db, locked: map[string]bool{"s-1": true}, patient: true, refused: map[string]bool{"s-3": true},
				attempts: map[string][]time.Time{},
			}
			f.cfg.Store = c
			k := f.newKeeper("here")
			stop := f.run(k)
			for _, runID := range []string{"s-1", "s-2", "s-3"} {
				f.attachTo(k, runID).Close()
			}
			stop()
			require.Equal(t, session.Finished, f.row("s-1").Status)
			require.Equal(t, session.Finished, f.row("s-2").Status)
			require.Equal(t, session.Active, f.row("s-3").Status)
		})
	})
	t.Run("the keeper's end gives up after twice the record timeout", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			c := &contended{
				database: f.db, locked: map[string]bool{"s-1": true}, refused: map[string]bool{}, attempts: map[string][]time.Time{},
			}
			f.db.onCall(func(_ context.Context, call string) error {
				if call == "End" {
					time.Sleep(time.Second) // fake time: the wait for the lock
				}
				return nil
			})
			f.cfg.Store = c
			k := f.newKeeper("here")
			stop := f.run(k)
			f.attachTo(k, "s-1").Close()
			began := time.Now()
			stop()
			require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout+time.Second)
			require.Equal(t, session.Active, f.row("s-1").Status)
		})
	})
}

// TestRefusedRows checks that a row which the database refuses holds up no others, and is tried by growing pauses.
func TestRefusedRows(t *testing.T) {
	inContention(t, func(f *fixture, c *contended) {
		refused, free, ended := f.attach("s-1"), f.attach("s-2"), f.attach("s-3")
		f.advance(time.Minute)
		c.change(func() { c.refused["s-1"], c.refused["s-3"] = true, true })
		ended.Close()
		busy(f, time.Hour, refused, free)
		require.LessOrEqual(t, time.Since(f.row("s-2").LastEventAt), time.Minute+time.Second)
		require.Equal(t, 2, f.log.count("the database refuses the row of a session"))
		require.Equal(t, 2, f.log.count(errTrigger.Error()))
		for _, runID := range []string{"s-1", "s-3"} {
			var tries []time.Time
			c.change(func() { tries = slices.Clone(c.attempts[runID]) })
			require.Greater(t, len(tries), 50)
			require.Less(t, len(tries), 75, "about one a minute")
			last := tries[len(tries)-1].Sub(tries[len(tries)-2])
			require.InDelta(t, time.Minute.Seconds(), last.Seconds(), 2)
		}
		c.change(func() { clear(c.refused) })
		f.advance(time.Minute + time.Second)
		require.Less(t, time.Since(f.row("s-1").LastEventAt), 2*time.Minute)
		require.Equal(t, session.Finished, f.row("s-3").Status)
	})
}
