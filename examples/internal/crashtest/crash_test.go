package crashtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// kills is how many children are killed, in all loops together.
var kills = racing.Rounds(60, 300)

// parallelRuns is how many runs are tested in parallel, each with its own database.
const parallelRuns = 3

func TestCrash(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range parallelRuns {
		const rule = "a run killed at random moments around its budget has one cancel per window, loop %d"
		t.Run(fmt.Sprintf(rule, i+1), func(t *testing.T) {
			t.Parallel()
			l := newCrashLoop(t, rand.New(rand.NewPCG(seed, uint64(i))))
			for l.killed < kills/parallelRuns {
				l.round()
			}
			l.finish()
		})
	}
}

// A crashLoop kills, restarts, stops and resumes one run again and again. It records what the run's host would know.
type crashLoop struct {
	t        *testing.T
	random   *rand.Rand
	database string
	job      job
	first    string // the start of the first window, as events write it
	last     *history
	blocked  bool // the child reported the end of the window
	killed   int
}

func newCrashLoop(t *testing.T, random *rand.Rand) *crashLoop {
	l := &crashLoop{t: t, random: random, database: filepath.Join(t.TempDir(), "events.db")}
	l.job = job{ID: "run", StartedAt: time.Now().UTC().Truncate(time.Microsecond), Budget: 40 * time.Millisecond}
	l.first = written(l.job.StartedAt)
	return l
}

// round starts a child on the run and kills it at a random moment, unless it finishes first.
func (l *crashLoop) round() {
	l.prepare()
	p := start(l.t, l.database)
	l.runAndKill(p)
	if l.oneIn(2) { // otherwise the next child recovers the database
		l.check()
	}
}

// prepare chooses between attach and resume: it resumes a run that is over, and sometimes one that may not be, as a
// user can.
func (l *crashLoop) prepare() {
	l.job.Resume = l.blocked || l.oneIn(8)
	l.job.PollOnly = l.oneIn(4)
	if l.blocked {
		l.job.Budget = l.between(20*time.Millisecond, 60*time.Millisecond)
		l.blocked = false
	}
}

// runAndKill follows the child to its end and kills it at a random moment: while it opens the database, while it
// attaches, or around the end of its budget.
func (l *crashLoop) runAndKill(p *process) {
	stage := l.random.IntN(4)
	kill := time.AfterFunc(time.Hour, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	if stage == 0 {
		kill.Reset(l.between(0, 40*time.Millisecond))
	}
	if _, ok := p.next(); ok && stage == 1 {
		kill.Reset(l.between(0, 5*time.Millisecond))
	}
	p.jobs.Encode(l.job) // it fails if the child is dead: next returns false then
	p.input.Close()
	attached, ok := p.next()
	if ok {
		l.attached(attached)
	}
	if ok && stage >= 2 {
		end := attached.AttachedTo.Add(l.job.Budget)
		kill.Reset(max(time.Until(end), 0) + l.between(-2*time.Millisecond, 6*time.Millisecond))
	}
	ended, ok := p.next()
	if ok {
		l.reportedEnd(ended)
	}
	if p.wait() {
		l.killed++
	}
}

// attached saves the window's start in half of the cases; in the others the host crashed before it could.
func (l *crashLoop) attached(said line) {
	if l.oneIn(2) {
		l.job.StartedAt = said.AttachedTo
	}
}

// reportedEnd checks the stop that the child reported: it must be in the database.
func (l *crashLoop) reportedEnd(said line) {
	require.NotNil(l.t, said.Stop)
	require.GreaterOrEqual(l.t, said.Stop.FiredAt.Sub(said.Stop.StartedAt), said.Stop.Budget)
	l.blocked = true
	l.check()
	payload := l.last.stops[written(said.Stop.StartedAt)]
	require.Contains(l.t, payload, written(said.Stop.FiredAt), "the stop that the child reports is the stored one")
}

func (l *crashLoop) check() {
	now := readHistory(l.t, l.database, l.job.ID)
	now.continues(l.t, l.last)
	now.check(l.t, l.first, l.blocked)
	l.last = now
}

// finish lets the run end without a kill.
func (l *crashLoop) finish() {
	l.job.Resume = false
	p := start(l.t, l.database)
	p.must()
	require.NoError(l.t, p.jobs.Encode(l.job))
	require.NoError(l.t, p.input.Close())
	p.must()
	l.reportedEnd(p.must())
	require.False(l.t, p.wait())
	l.t.Logf("killed %d times; %d windows with one cancel each", l.killed, len(l.last.ends))
}

func (l *crashLoop) oneIn(n int) bool { return l.random.IntN(n) == 0 }

func (l *crashLoop) between(least, most time.Duration) time.Duration {
	return least + time.Duration(l.random.Int64N(int64(most-least)))
}

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
			require.Equal(t, startedAt, said.Stop.StartedAt)
			h := readHistory(t, database, j.ID)
			h.check(t, written(startedAt), true)
			require.Equal(t, 1, count(h, watchdog.EventCancel))
		})
		t.Run(fmt.Sprintf("eight processes that resume at once get one window, run %d", n), func(t *testing.T) {
			j.Budget = time.Hour
			j.StartedAt = group.resume(t, j)
			require.True(t, j.StartedAt.After(startedAt))
			h := readHistory(t, database, j.ID)
			h.check(t, written(startedAt), false)
			require.Equal(t, 1, count(h, watchdog.EventResume))
		})
		t.Run(fmt.Sprintf("a window that four complete at its limit is complete or stopped, run %d", n), func(t *testing.T) {
			j.Budget = time.Since(j.StartedAt) + 100*time.Millisecond
			early := time.Duration(rand.IntN(16_000)-8_000) * time.Microsecond
			j.CompleteAt = j.StartedAt.Add(j.Budget - early)
			said := group.watch(t, j)
			h := readHistory(t, database, j.ID)
			h.check(t, written(startedAt), true)
			require.Equal(t, said.Complete, said.Stop == nil)
			if said.Complete {
				completed++
			}
			require.Equal(t, said.Complete, count(h, watchdog.EventComplete) == 1)
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

// A history holds the events of one run, parsed without the library.
type history struct {
	events []watchdog.Event
	ends   map[string]int    // the number of cancels and completes, by the start of the window
	opened map[string]string // the start of the next window, by the start of the window before
	stops  map[string]string // the payload of the cancel, by the start of the window
}

// readHistory opens the database again, which must succeed, and closes it.
func readHistory(t *testing.T, path, id string) *history {
	t.Helper()
	store, err := openStore(path)
	require.NoError(t, err, "open the database")
	events, err := store.Read(context.Background(), watchdog.AggregateType, id)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	h := &history{events, map[string]int{}, map[string]string{}, map[string]string{}}
	for _, e := range events {
		h.add(t, e)
	}
	return h
}

func (h *history) add(t *testing.T, e watchdog.Event) {
	t.Helper()
	var payload struct {
		Start    string `json:"session_started_at"`
		Previous string `json:"previous_started_at"`
	}
	require.NoError(t, json.Unmarshal(e.Payload, &payload))
	switch e.Type {
	case watchdog.EventCancel:
		h.ends[payload.Start]++
		h.stops[payload.Start] = string(e.Payload)
	case watchdog.EventComplete:
		h.ends[payload.Start]++
	case watchdog.EventResume:
		require.NotContains(t, h.opened, payload.Previous, "a window is followed by one window")
		h.opened[payload.Previous] = payload.Start
	}
}

// check follows the windows from the first one: each but the last has exactly one end, the last at most one, or
// exactly one if it is over.
func (h *history) check(t *testing.T, first string, over bool) {
	t.Helper()
	windows, start := 0, first
	for ; h.opened[start] != ""; start = h.opened[start] {
		require.Equalf(t, 1, h.ends[start], "ends of the window since %s, which is not the last", start)
		windows++
	}
	if over {
		require.Equalf(t, 1, h.ends[start], "ends of the last window, since %s, which is over", start)
	}
	require.LessOrEqual(t, h.ends[start], 1, "ends of the last window, since %s", start)
	require.Len(t, h.opened, windows, "every resume follows a window of this run")
	require.Len(t, h.ends, windows+h.ends[start], "every end is of a window of this run")
}

// continues checks that no earlier event is lost or changed.
func (h *history) continues(t *testing.T, before *history) {
	t.Helper()
	if before == nil {
		return
	}
	for _, e := range before.events {
		i := slices.IndexFunc(h.events, func(other watchdog.Event) bool { return other.ID == e.ID })
		require.GreaterOrEqual(t, i, 0, "event %s (%s) is still there", e.ID, e.Type)
		require.JSONEq(t, string(e.Payload), string(h.events[i].Payload))
	}
}

// written formats a time as events do.
func written(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
