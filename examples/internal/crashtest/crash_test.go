package crashtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
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
			require.Equal(t, 1, count(h, event.Cancel))
		})
		t.Run(fmt.Sprintf("eight processes that resume at once get one window, run %d", n), func(t *testing.T) {
			j.Budget = time.Hour
			j.StartedAt = group.resume(t, j)
			require.True(t, j.StartedAt.After(startedAt))
			h := readHistory(t, database, j.ID)
			h.check(t, written(startedAt), false)
			require.Equal(t, 1, count(h, event.Resume))
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
			require.Equal(t, said.Complete, count(h, event.Complete) == 1)
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
	events, err := store.Read(context.Background(), event.AggregateType, id)
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
	case event.Cancel:
		h.ends[payload.Start]++
		h.stops[payload.Start] = string(e.Payload)
	case event.Complete:
		h.ends[payload.Start]++
	case event.Resume:
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

// A job is a run that a child watches.
type job struct {
	ID        string
	StartedAt time.Time
	Budget    time.Duration
	Resume    bool
	PollOnly  bool
	// Leave makes the child close the watchdog right after the attach.
	Leave bool
	// CompleteAt is when the child completes the run; zero is never.
	CompleteAt time.Time `json:",omitzero"`
}

// A line is what a child prints: first that its database is open, then that it is attached, then how the run ended.
type line struct {
	Open bool `json:",omitempty"`
	// AttachedTo is the start of the window.
	AttachedTo time.Time `json:",omitzero"`
	// Stop is the stop, Text its error text; Complete is the other end.
	Stop     *watchdog.Stop `json:",omitempty"`
	Text     string         `json:",omitempty"`
	Complete bool           `json:",omitempty"`
}

// A closingStore is a store that is to be closed.
type closingStore interface {
	watchdog.EventStore
	io.Closer
}

// openStore opens a database: that of a connection string or of a file.
func openStore(database string) (closingStore, error) {
	if strings.HasPrefix(database, "postgres:") {
		return postgres.Open(context.Background(), database, postgres.Config{})
	}
	return sqlite.Open(context.Background(), database)
}

// watchRuns is the child's main: it watches one run after another until its input ends.
func watchRuns(database string, in io.Reader, out io.Writer) error {
	store, err := openStore(database)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	if err := lines.Encode(line{Open: true}); err != nil {
		return err
	}
	for jobs := json.NewDecoder(in); ; {
		var j job
		if err := jobs.Decode(&j); errors.Is(err, io.EOF) {
			return store.Close()
		} else if err != nil {
			return err
		}
		if err := j.watch(store, lines); err != nil {
			return err
		}
	}
}

// watch attaches to the run, waits for its end unless j.Leave is set, and prints how the run ended.
func (j job) watch(store watchdog.EventStore, lines *json.Encoder) error {
	wd, err := j.guard(store)
	if errors.Is(err, watchdog.ErrComplete) { // another child was faster
		return errors.Join(lines.Encode(line{AttachedTo: j.StartedAt}), lines.Encode(line{Complete: true}))
	}
	if err != nil {
		return err
	}
	if err := lines.Encode(line{AttachedTo: wd.StartedAt()}); err != nil {
		return err
	}
	switch {
	case j.Leave:
		return wd.Close()
	case !j.CompleteAt.IsZero():
		time.Sleep(time.Until(j.CompleteAt))
		if err := wd.Complete(); err != nil && !errors.Is(err, watchdog.ErrEnded) {
			return err
		}
	case j.PollOnly:
		poll(wd)
	}
	<-wd.Context().Done()
	ended := line{Stop: wd.Stop(), Complete: errors.Is(context.Cause(wd.Context()), watchdog.ErrComplete)}
	if ended.Stop != nil {
		ended.Text = ended.Stop.Error()
	}
	return errors.Join(wd.Close(), lines.Encode(ended))
}

func (j job) guard(store watchdog.EventStore) (*watchdog.Watchdog, error) {
	guard := watchdog.New
	if j.Resume {
		guard = watchdog.Resume
	}
	return guard(context.Background(), watchdog.Run{ID: j.ID, StartedAt: j.StartedAt}, watchdog.Config{
		Store:    store,
		Budget:   watchdog.Budget{WallClock: j.Budget, WarnAt: []float64{0.5}},
		PollOnly: j.PollOnly,
		Logger:   slog.New(slog.DiscardHandler),
	})
}

// poll calls Fired every millisecond until the run has ended, as a host does at its phase boundaries.
func poll(wd *watchdog.Watchdog) {
	phases := time.NewTicker(time.Millisecond)
	defer phases.Stop()
	for wd.Context().Err() == nil {
		wd.Fired()
		<-phases.C
	}
}

// A process is a child of the test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	jobs   *json.Encoder
	input  io.Closer
	lines  *json.Decoder
	stderr bytes.Buffer
}

// start starts a child that watches runs.
func start(t *testing.T, database string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), self)}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+database, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.jobs, p.input, p.lines = json.NewEncoder(in), in, json.NewDecoder(out)
	return p
}

// next reads the child's next line. It returns false if the child ended first.
func (p *process) next() (said line, ok bool) {
	return said, p.lines.Decode(&said) == nil
}

// must is next for a child that nothing kills.
func (p *process) must() line {
	p.t.Helper()
	said, ok := p.next()
	if !ok {
		p.cmd.Wait()
		require.FailNow(p.t, "the child ended early", p.stderr.String())
	}
	return said
}

// wait waits for the child and reports whether it was killed. It fails the test if the child failed.
func (p *process) wait() (killed bool) {
	p.t.Helper()
	err := p.cmd.Wait()
	if p.cmd.ProcessState.Exited() {
		require.NoErrorf(p.t, err, "the child printed\n%s", &p.stderr)
	}
	return !p.cmd.ProcessState.Exited()
}

// asChild makes this test binary a process that watches runs. Its value is the path or connection string of the
// database.
const asChild = "CRASHTEST_DATABASE"

func TestMain(m *testing.M) {
	if database := os.Getenv(asChild); database != "" {
		if err := watchRuns(database, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if racing.Enabled {
		fmt.Println("skipped with the race detector: the tests check what killed processes leave in a database")
		return
	}
	_ = flag.Set("test.parallel", "6") // they wait for budgets half of the time
	goleak.VerifyTestMain(m)
}
