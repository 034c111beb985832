package crashtest_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

const (
	processes = 8
	runs      = 10
)

func TestRaceSQLite(t *testing.T) {
	t.Parallel()
	race(t, filepath.Join(t.TempDir(), "events.db"))
}

func TestRacePostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	race(t, server.DSN(server.Database(t)))
}

// race has processes fire, resume and complete a run at once, whose windows have one end each.
func race(t *testing.T, database string) {
	group := startGroup(t, database)
	completed := 0
	for n := range runs {
		startedAt := time.Now().UTC().Truncate(time.Microsecond)
		j := job{ID: fmt.Sprintf("run-%d", n), StartedAt: startedAt, Budget: 100 * time.Millisecond}

		t.Run(fmt.Sprintf("eight processes that fire at once report one stop, run %d", n), func(t *testing.T) {
			said := group.watch(t, j)
			require.NotNil(t, said.Stop)
			assert.Equal(t, startedAt, said.Stop.StartedAt)
			h := readHistory(t, database, j.ID)
			h.check(t, written(startedAt), true)
			assert.Equal(t, 1, count(h, watchdog.EventCancel))
		})
		t.Run(fmt.Sprintf("eight processes that resume at once get one window, run %d", n), func(t *testing.T) {
			j.Budget = time.Hour
			j.StartedAt = group.resume(t, j)
			assert.True(t, j.StartedAt.After(startedAt))
			h := readHistory(t, database, j.ID)
			h.check(t, written(startedAt), false)
			assert.Equal(t, 1, count(h, watchdog.EventResume))
		})
		t.Run(fmt.Sprintf("a window that four complete at its limit is complete or stopped, run %d", n), func(t *testing.T) {
			j.Budget = time.Since(j.StartedAt) + 100*time.Millisecond
			early := time.Duration(rand.IntN(16_000)-8_000) * time.Microsecond
			j.CompleteAt = j.StartedAt.Add(j.Budget - early)
			said := group.watch(t, j)
			h := readHistory(t, database, j.ID)
			h.check(t, written(startedAt), true)
			assert.Equal(t, said.Complete, said.Stop == nil)
			if said.Complete {
				completed++
			}
			assert.Equal(t, said.Complete, count(h, watchdog.EventComplete) == 1)
		})
	}
	t.Logf("%d of %d windows were complete", completed, runs)
	group.end()
}

// A group of processes watches the same run. Every other one only polls.
type group []*process

// startGroup starts the processes on a database that does not exist yet.
func startGroup(t *testing.T, database string) group {
	t.Helper()
	var all group
	for range processes {
		all = append(all, start(t, database))
	}
	for _, p := range all {
		require.True(t, p.must().Open)
	}
	return all
}

// watch gives the run to all processes and returns the end that each of them reports. Half of them complete it.
func (all group) watch(t *testing.T, j job) line {
	t.Helper()
	completeAt := j.CompleteAt
	for i, p := range all {
		j.PollOnly, j.CompleteAt = i%2 == 1, time.Time{}
		if i%4 < 2 {
			j.CompleteAt = completeAt
		}
		require.NoError(t, p.jobs.Encode(j))
	}
	var windows, ends []line
	for _, p := range all {
		windows, ends = append(windows, p.must()), append(ends, p.must())
	}
	for i := range all {
		require.Equal(t, windows[0], windows[i], "the window of every process")
		require.Equal(t, ends[0], ends[i], "the end of every process")
	}
	return ends[0]
}

// resume makes all processes resume the run and close the watchdog. It returns the window's start, the same for all.
func (all group) resume(t *testing.T, j job) time.Time {
	t.Helper()
	j.Resume, j.Leave = true, true
	for _, p := range all {
		require.NoError(t, p.jobs.Encode(j))
	}
	first := all[0].must()
	for _, p := range all[1:] {
		require.Equal(t, first, p.must(), "the window of every process")
	}
	return first.AttachedTo
}

func (all group) end() {
	for _, p := range all {
		require.NoError(p.t, p.input.Close())
		require.False(p.t, p.wait())
	}
}

func count(h *history, kind string) int {
	n := 0
	for _, e := range h.events {
		if e.Type == kind {
			n++
		}
	}
	return n
}
