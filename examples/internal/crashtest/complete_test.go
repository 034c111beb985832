package crashtest_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// shortBudget is long enough for a host to attach and short enough to race with it.
const shortBudget = 60 * time.Millisecond

func TestCompleteSQLite(t *testing.T) {
	t.Parallel()
	completes(t, func(t *testing.T) string { return filepath.Join(t.TempDir(), "events.db") })
}

func TestCompletePostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Settings: []string{"max_connections=200"}})
	completes(t, func(t *testing.T) string { return server.DSN(server.Database(t)) })
}

// completes proves for a database that complete and cancel exclude each other, whoever is killed when.
func completes(t *testing.T, database func(*testing.T) string) {
	t.Helper()
	t.Run("a run that was completed is cancelled by nobody, whichever host is killed", func(t *testing.T) {
		t.Parallel()
		c := completion{t: t, database: database(t)}
		for i := range rounds / 2 { // each has two windows
			c.round(fmt.Sprintf("run-%d", i))
		}
		t.Logf("windows: %d complete, %d cancelled; %d hosts killed", c.completed, c.cancelled, c.killed)
	})
	t.Run("of two hosts both end with the same, as complete or with the same stop", func(t *testing.T) {
		t.Parallel()
		at := database(t)
		for i := range rounds {
			pairEnds(t, at, fmt.Sprintf("run-%d", i))
		}
	})
}

// A completion is the test of many runs, each with three hosts that race.
type completion struct {
	t                            *testing.T
	database                     string
	completed, cancelled, killed int
}

// An outcome is what a host said before it ended or was killed.
type outcome struct {
	attached, completed *answer // nil if it was killed before
	killed              bool
}

// round lets three hosts race in a window, and again in one that is opened after it.
func (c *completion) round(id string) {
	attach := command{
		Do: "attach", Run: watchdog.Run{ID: id}, Budget: watchdog.Budget{WallClock: shortBudget},
	}
	attach.Run.StartedAt = c.now()
	c.race(attach)
	resume := attach
	resume.Do = "resume"
	c.race(resume)
}

func (c *completion) now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// race lets three hosts race, each of which completes the run, is killed, or both, and then checks the window's end.
func (c *completion) race(attach command) {
	hosts := make([]*process, 3)
	for i := range hosts {
		hosts[i] = startHost(c.t, c.database)
		hosts[i].tell(command{Do: "look"}) // the database is open
	}
	if attach.Do == "attach" {
		attach.Run.StartedAt = c.now()
	}
	outcomes := make([]outcome, len(hosts))
	var all sync.WaitGroup
	for i, p := range hosts {
		all.Go(func() { outcomes[i] = p.raceToComplete(attach) })
	}
	all.Wait()
	for i, p := range hosts {
		if p.input.Close(); p.wait() {
			outcomes[i].killed = true
			c.killed++
		}
	}
	c.checkEnd(attach, outcomes)
}

// raceToComplete attaches, completes the run at a random moment around its budget's end, and is killed at another.
func (p *process) raceToComplete(attach command) (said outcome) {
	timer := &killTimer{p: p}
	defer timer.stop()
	fate := rand.IntN(4)
	if fate == 0 {
		timer.start(time.Duration(rand.Int64N(int64(shortBudget))))
	}
	a, ok := p.ask(attach)
	if !ok {
		return said
	}
	said.attached = &a
	wait := time.Duration(rand.Int64N(int64(shortBudget)))
	if fate == 1 {
		timer.start(wait + time.Duration(rand.IntN(3000))*time.Microsecond)
	}
	if fate == 2 { // the others race with the limit itself
		wait = max(0, time.Until(a.AttachedTo.Add(shortBudget)))
	}
	if a, ok = p.ask(command{Do: "complete", After: wait}); ok {
		said.completed = &a
	}
	return said
}

// checkEnd lets the budget pass, and then checks that the window has one end, and that it is what every host said.
func (c *completion) checkEnd(attach command, outcomes []outcome) {
	c.t.Helper()
	time.Sleep(shortBudget)
	attach.Do = "attach"
	p := startHost(c.t, c.database)
	late, ok := p.ask(attach)
	require.True(c.t, ok)
	p.input.Close()
	require.False(c.t, p.wait())
	h := readHistory(c.t, c.database, attach.Run.ID)
	for start := range h.done {
		require.Equal(c.t, 1, h.done[start])
		require.Zero(c.t, h.cancels[start], "the cancels of a window that is complete")
	}
	for _, n := range h.cancels {
		require.Equal(c.t, 1, n)
	}
	if late.Complete {
		c.completed++
	} else {
		c.cancelled++
		require.NotNil(c.t, late.Stop, "after its budget the run has ended: %s", late.Err)
	}
	for _, said := range outcomes {
		if a := said.completed; a != nil && said.attached.Err == "" {
			// Of its own window: a host that resumed the run after it was complete opened another.
			complete := h.done[a.AttachedTo.UTC().Format("2006-01-02T15:04:05.000000Z")] == 1
			require.Equal(c.t, complete, a.Err == "", "complete returned %q, later the run was %+v", a.Err, late)
			require.True(c.t, a.Err == "" || a.Ended, "the error of complete: %s", a.Err)
			require.Equal(c.t, complete, a.Stop == nil)
		}
	}
}

// pairEnds lets one host complete the run around the end of its budget, while another watches it.
func pairEnds(t *testing.T, database, id string) {
	t.Helper()
	worker, watcher := startHost(t, database), startHost(t, database)
	worker.tell(command{Do: "look"})
	watcher.tell(command{Do: "look"})
	attach := command{
		Do: "attach", Run: watchdog.Run{ID: id, StartedAt: time.Now().UTC().Truncate(time.Microsecond)},
		Budget: watchdog.Budget{WallClock: 2 * shortBudget},
	}
	worker.tell(attach)
	watcher.tell(attach)
	end := attach.Run.StartedAt.Add(2 * shortBudget)
	wait := time.Until(end) - time.Duration(rand.IntN(10_000)-2000)*time.Microsecond
	ended := make(chan answer)
	go func() {
		a, _ := watcher.ask(command{Do: []string{"end", "sync"}[rand.IntN(2)], After: 0})
		if a.Err == "" { // it synced before the end
			a, _ = watcher.ask(command{Do: "end"})
		}
		ended <- a
	}()
	done, ok := worker.ask(command{Do: "complete", After: max(wait, 0)})
	require.True(t, ok)
	watched := <-ended
	if done.Err == "" {
		require.True(t, watched.Complete, "%+v", watched)
		require.Nil(t, watched.Stop)
	} else {
		require.True(t, done.Ended, done.Err)
		require.Equal(t, done.Stop, watched.Stop)
		require.NotNil(t, watched.Stop)
	}
	worker.kill()
	watcher.kill()
	h := readHistory(t, database, id)
	require.Equal(t, 1, count(h, watchdog.EventCancel)+count(h, watchdog.EventComplete))
}
