package crashtest_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

const (
	processes = 8
	runs      = 10
)

func TestRace(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "events.db")
	group := startGroup(t, database)
	for n := range runs {
		startedAt := time.Now().UTC().Truncate(time.Microsecond)
		j := job{ID: fmt.Sprintf("run-%d", n), StartedAt: startedAt, Budget: 100 * time.Millisecond}

		t.Run(fmt.Sprintf("eight processes that fire at once report one stop, run %d", n), func(t *testing.T) {
			stop := group.watch(t, j)
			assert.Equal(t, startedAt, stop.Stop.StartedAt)
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
		t.Run(fmt.Sprintf("eight processes fire once more in the window after that, run %d", n), func(t *testing.T) {
			j.Budget = time.Since(j.StartedAt) + 50*time.Millisecond
			assert.Equal(t, j.StartedAt, group.watch(t, j).Stop.StartedAt)
			h := readHistory(t, database, j.ID)
			h.check(t, written(startedAt), true)
			assert.Equal(t, 2, count(h, watchdog.EventCancel))
		})
	}
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

// watch gives the run to all processes and returns the stop that each of them reports.
func (all group) watch(t *testing.T, j job) line {
	t.Helper()
	for i, p := range all {
		j.PollOnly = i%2 == 1
		require.NoError(t, p.jobs.Encode(j))
	}
	var windows, ends []line
	for _, p := range all {
		windows, ends = append(windows, p.must()), append(ends, p.must())
	}
	for i := range all {
		require.Equal(t, windows[0], windows[i], "the window of every process")
		require.Equal(t, ends[0], ends[i], "the stop of every process")
	}
	require.NotNil(t, ends[0].Stop)
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
