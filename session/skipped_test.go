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
	patient  bool   // a row alone is waited for, and its lock ends meanwhile
	stuck    string // a run whose lock does not end
	refused  map[string]bool
	attempts map[string][]time.Time // when each run was tried
	alone    []string               // the runs that were tried alone
}

func newContended(f *fixture) *contended {
	return &contended{
		database: f.db, locked: map[string]bool{}, refused: map[string]bool{}, attempts: map[string][]time.Time{},
	}
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
	free, skipped.Failed = map[string]bool{}, map[string]error{}
	if len(runs) == 1 {
		c.alone = append(c.alone, runs[0])
	}
	for _, runID := range runs {
		c.attempts[runID] = append(c.attempts[runID], time.Now())
		switch {
		case c.locked[runID] && !(c.patient && len(runs) == 1 && runID != c.stuck):
			skipped.Locked = append(skipped.Locked, runID)
		case c.refused[runID]:
			skipped.Failed[runID] = errTrigger
		default:
			free[runID] = true
		}
	}
	return skipped, free
}

func (c *contended) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (session.Skipped, error) {
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
	written, err := c.database.Freshen(ctx, lease, kept)
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
		c := newContended(f)
		f.cfg.Store = c
		f.start()
		f.Cleanup(func() { clear(c.locked); clear(c.refused) }) // or the keeper's end waits for them
		test(f, c)
	})
}

// contention is inContention for a part of a test.
func contention(t *testing.T, name string, test func(f *fixture, c *contended)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inContention(t, test) })
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
	contention(t, "the others are kept fresh", func(f *fixture, c *contended) {
		locked, free := f.attach("s-1"), f.attach("s-2")
		c.change(func() { c.locked["s-1"] = true })
		busy(f, time.Hour, locked, free)
		require.LessOrEqual(f, time.Since(f.shown("s-2")), time.Minute+time.Second)
		require.Greater(f, time.Since(f.shown("s-1")), 58*time.Minute)
		c.change(func() { delete(c.locked, "s-1") })
		f.advance(2 * time.Second)
		require.Less(f, time.Since(f.shown("s-1")), 4*time.Second)
		require.Zero(f, f.log.count("level=ERROR"), "it is no outage")
	})
	contention(t, "a row that is locked at every look is waited for alone", func(f *fixture, c *contended) {
		locked, free := f.attach("s-1"), f.attach("s-2")
		busy(f, time.Minute, locked, free)
		c.change(func() { c.locked["s-1"], c.patient = true, true })
		busy(f, 3*time.Minute, locked, free)
		require.LessOrEqual(f, time.Since(f.shown("s-1")), time.Minute+15*time.Second)
	})
	contention(t, "each is waited for alone, in their order, though one stays locked", func(f *fixture, c *contended) {
		c.patient, c.stuck = true, "s-1"
		var runs []*watchdog.Watchdog
		for _, runID := range []string{"s-1", "s-2", "s-3"} {
			c.locked[runID] = true
			runs = append(runs, f.attach(runID))
			f.advance(time.Second)
		}
		busy(f, 60*time.Second, runs...) // each is due a minute after its attach
		f.db.onCall(func(context.Context, string) error { return errTrigger })
		busy(f, 20*time.Second, runs...) // now all were locked for long
		c.alone = nil
		f.db.onCall(nil)
		busy(f, 3*time.Second, runs...)
		require.Equal(f, []string{"s-1", "s-2", "s-3"}, c.alone)
		require.Less(f, time.Since(f.shown("s-2")), 4*time.Second)
		require.Less(f, time.Since(f.shown("s-3")), 4*time.Second)
		tries := len(c.attempts["s-2"])
		busy(f, 30*time.Second, runs...)
		require.Len(f, c.attempts["s-2"], tries, "it is fresh")
	})
	contention(t, "a locked row of a run that has ended is written when it is free", func(f *fixture, c *contended) {
		locked, free := f.attach("s-1"), f.attach("s-2")
		c.change(func() { c.locked["s-1"] = true })
		locked.Close()
		free.Close()
		f.advance(time.Minute)
		require.Equal(f, session.Active, f.row("s-1").Status)
		require.Equal(f, session.Finished, f.row("s-2").Status)
		require.Equal(f, 1, f.keeper().Live())
		c.change(func() { delete(c.locked, "s-1") })
		f.advance(2 * time.Second)
		require.Equal(f, session.Finished, f.row("s-1").Status)
		require.Zero(f, f.keeper().Live())
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
		require.LessOrEqual(t, time.Since(f.shown("s-2")), time.Minute+time.Second)
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
		require.Less(t, time.Since(f.shown("s-1")), 2*time.Minute)
		require.Equal(t, session.Finished, f.row("s-3").Status)
		c.refused["s-1"] = true
		busy(f, 2*time.Minute, refused)
		require.Equal(t, 3, f.log.count("the database refuses the row of a session"), "after it was written")
	})
}

// TestRefusedAtEnd checks that the keeper's end does not keep to the pause of a row that was refused.
func TestRefusedAtEnd(t *testing.T) {
	inBubble(t, func(f *fixture) {
		c := newContended(f)
		c.refused["s-1"] = true
		f.cfg.Store = c
		k := f.newKeeper("here")
		stop := f.run(k)
		f.attachTo(k, "s-1").Close()
		f.advance(10 * time.Minute) // it is left alone for a minute by now
		clear(c.refused)
		tries := len(c.attempts["s-1"])
		stop()
		require.Len(t, c.attempts["s-1"], tries+1)
		require.Equal(t, session.Finished, f.row("s-1").Status)
	})
}

// TestLateAnswer checks that what became of the row of an attempt does not count for the one that began meanwhile.
func TestLateAnswer(t *testing.T) {
	inContention(t, func(f *fixture, c *contended) {
		wd := f.attach("s-1")
		busy(f, 59*time.Second, wd)
		c.refused["s-1"] = true
		f.db.onCall(func(_ context.Context, call string) error {
			if call == "Freshen" {
				f.db.onCall(nil)
				time.Sleep(2 * time.Second) // fake time
				f.attach("s-1")
			}
			return nil
		})
		busy(f, 5*time.Second, wd)
		require.Equal(t, 2, f.row("s-1").Attempt)
		require.Zero(t, f.log.count(errTrigger.Error()))
		f.db.takeCounts()
		f.advance(20 * time.Minute)
		calls, _ := f.db.takeCounts()
		require.Zero(t, calls["Freshen"], "the row shows the attach")
	})
}

// TestRefusedPauses checks that each pause of a row that is refused is twice the one before, and no look longer.
func TestRefusedPauses(t *testing.T) {
	inContention(t, func(f *fixture, c *contended) {
		c.refused["s-1"] = true
		f.attach("s-1").Close()
		f.advance(4 * time.Minute)
		var pauses []time.Duration
		tries := c.attempts["s-1"]
		for i := range 6 {
			pauses = append(pauses, tries[i+2].Sub(tries[i+1])) // the first try was Close's
		}
		require.Equal(t, []time.Duration{
			2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute,
		}, pauses)
	})
}

// TestLateEnd checks that the end of an attempt is not written once more because the row of the next one is locked.
func TestLateEnd(t *testing.T) {
	inBubble(t, func(f *fixture) {
		c := newContended(f)
		f.cfg.Store, f.cfg.Pace, f.cfg.RecordTimeout = c, 4*time.Second, time.Minute
		f.start()
		f.Cleanup(func() { clear(c.locked) })
		wd := f.attach("s-1")
		f.db.onCall(func(_ context.Context, call string) error {
			if call == "End" {
				f.db.onCall(nil)
				time.Sleep(15 * time.Second) // fake time
			}
			return nil
		})
		go wd.Close()
		f.advance(0)
		f.attach("s-1")
		f.attach("s-2")
		c.change(func() { c.locked["s-1"], c.locked["s-2"] = true, true })
		f.keeper().RecheckAll()
		f.advance(15 * time.Second) // locked for eleven of them
		calls, _ := f.db.takeCounts()
		require.Equal(t, 1, calls["End"])
		require.Equal(t, session.Active, f.row("s-1").Status)
	})
}
