package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/event/eventtest"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/session/sessiontest"
	"github.com/seed62658d38/watchdog/store/internal/testrun"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(childVariable); job != "" {
		os.Exit(runChild(job))
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" { // a sync of a file in memory costs nothing
		testrun.InMemory()
	}
	_ = flag.Set("test.parallel", "4") // some wait for a lock
	goleak.VerifyTestMain(m)
}

// setups are the ways to open a store. A store keeps every rule in each of them.
var setups = map[string]struct {
	open func(t *testing.T) putter
	slow bool // under the race detector: it takes a minute, and runs the same Go code as the others
	long bool // in a long run only: it runs the same statements as the others
	each bool // opens a store for each rule; else one is emptied, as creating tables takes longer than most rules
}{
	"opened from a path for each rule": {long: true, each: true, open: func(t *testing.T) putter {
		file := newFile(t)
		require.NoError(t, os.WriteFile(file, emptyStore(t), 0o600))
		s := openAt(t, file)
		return putter{Store: s, other: openPlain(t, file, "busy_timeout(10000)", "synchronous(OFF)")}
	}},
	"opened from a path": {open: func(t *testing.T) putter {
		file := newFile(t)
		s := openAt(t, file)
		return putter{Store: s, other: openPlain(t, file, "busy_timeout(10000)", "synchronous(OFF)")}
	}},
	"in a pool of one connection": {long: true, open: func(t *testing.T) putter {
		// The rollback journal of a file, which is in use without WAL, is synced several times for each write.
		db := openOne(t, newFile(t), "busy_timeout(0)", "journal_mode(MEMORY)")
		return putter{Store: newStore(t, db), other: db}
	}},
	"in a host's table": {slow: true, open: func(t *testing.T) putter {
		db := hostDatabase(t, newFile(t))
		mustExec(t, db, foreignTable)
		return putter{Store: newStore(t, db), other: db}
	}},
	"with a driver without contexts": {long: true, open: func(t *testing.T) putter {
		file := newFile(t)
		db := hookedDatabase(t, file, func(string) error { return nil })
		mustExec(t, db, "PRAGMA journal_mode = WAL")
		return putter{Store: newStore(t, db), other: openPlain(t, file, "busy_timeout(10000)")}
	}},
}

var emptyFile struct {
	once    sync.Once
	content []byte
}

// emptyStore returns the file of a store without rows, which is made once.
func emptyStore(t *testing.T) []byte {
	t.Helper()
	emptyFile.once.Do(func() {
		file := newFile(t)
		assert.NoError(t, openAt(t, file).Close())
		content, err := os.ReadFile(file)
		assert.NoError(t, err)
		emptyFile.content = content
	})
	return emptyFile.content
}

// inEachSetup runs a test with each way to open a store.
func inEachSetup(t *testing.T, test func(t *testing.T, open func(t *testing.T) putter)) {
	t.Helper()
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			if setup.slow && testrun.Racing || setup.long && !testrun.Long {
				t.Skip("runs in plain or in long tests only")
			}
			t.Parallel()
			if setup.each {
				test(t, func(t *testing.T) putter { return setup.open(t) })
				return
			}
			all := setup.open(t)
			test(t, all.emptied)
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	inEachSetup(t, func(t *testing.T, open func(t *testing.T) putter) {
		eventtest.Run(t, func(t *testing.T) event.Store { return open(t) })
	})
}

func TestSessions(t *testing.T) {
	t.Parallel()
	inEachSetup(t, func(t *testing.T, open func(t *testing.T) putter) {
		sessiontest.Run(t, func(t *testing.T) session.Store { return open(t) })
	})
}

func TestDurableFile(t *testing.T) {
	t.Parallel()
	eventtest.RunDurable(t, func(t *testing.T) func() (event.Store, error) {
		file := newFile(t)
		return func() (event.Store, error) { return sqlite.Open(t.Context(), file) }
	})
}

func TestDurableHostDatabase(t *testing.T) {
	t.Parallel()
	eventtest.RunDurable(t, func(t *testing.T) func() (event.Store, error) {
		db := hostDatabase(t, newFile(t))
		return func() (event.Store, error) { return sqlite.New(t.Context(), db) }
	})
}

func TestCloseWaitsForCalls(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	var calls sync.WaitGroup
	for n := range int64(32) {
		calls.Go(func() {
			_, readErr := s.Read(t.Context(), event.AggregateType, "run-1")
			for _, err := range []error{readErr, s.Append(t.Context(), numbered(n))} {
				if err != nil && !errors.Is(err, sqlite.ErrClosed) {
					t.Errorf("a call while the store closes: %v", err)
				}
			}
		})
	}
	require.NoError(t, s.Close())
	calls.Wait()
}

// newFile names a file that does not exist yet.
func newFile(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "events.db")
}

func openNew(tb testing.TB) *sqlite.Store {
	tb.Helper()
	return openAt(tb, newFile(tb))
}

func openAt(tb testing.TB, file string) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), file)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, s.Close()) })
	return s
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// numbered returns the n-th event of run-1.
func numbered(n int64) event.Event {
	return event.Event{
		ID:            fmt.Sprintf("event-%d", n),
		AggregateType: event.AggregateType,
		AggregateID:   "run-1",
		Type:          event.Cancel,
		Payload:       fmt.Appendf(nil, `{"reason":"wall_clock_exceeded","n":%d}`, n),
		Timestamp:     noon.Add(time.Duration(n) * time.Second),
	}
}

// read returns the events of run-1.
func read(tb testing.TB, s *sqlite.Store) []event.Event {
	tb.Helper()
	events, err := s.Read(tb.Context(), event.AggregateType, "run-1")
	require.NoError(tb, err)
	return events
}

// errorSays checks that the error contains all the texts.
func errorSays(tb testing.TB, err error, texts ...string) {
	tb.Helper()
	for _, text := range texts {
		require.ErrorContains(tb, err, text)
	}
}

func ids(events []event.Event) (names []string) {
	for _, e := range events {
		names = append(names, e.ID)
	}
	return names
}

// A putter is a store with a connection of another program, which writes to the store's tables directly.
type putter struct {
	*sqlite.Store
	other *sql.DB
	kept  bool // for the next rule
}

// emptied returns the store after it deleted all rows, for the next rule. That rule does not close it.
func (p putter) emptied(t *testing.T) putter {
	t.Helper()
	mustExec(t, p.other, "BEGIN; DELETE FROM events; DELETE FROM watchdog_sessions; DELETE FROM watchdog_leases; COMMIT")
	p.kept = true
	return p
}

// Close does nothing if the next rule uses the store again. It is closed when the test ends.
func (p putter) Close() error {
	if p.kept {
		return nil
	}
	return p.Store.Close()
}

const putRow = `INSERT OR REPLACE INTO watchdog_sessions
	(run_id, parent, status, created_at, last_event_at, threshold, started_at, host, attempt, resumes, reason)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (p putter) Put(ctx context.Context, rows ...session.Session) error {
	tx, err := p.other.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert, err := tx.PrepareContext(ctx, putRow)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, s := range rows {
		_, err := insert.ExecContext(ctx,
			s.RunID, s.Parent, string(s.Status), sqlite.FormatTime(s.CreatedAt), optional(s.LastEventAt),
			int64(s.Threshold), sqlite.FormatTime(s.StartedAt), s.Host, s.Attempt, s.Resumes, string(s.Reason))
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (p putter) Spoil(ctx context.Context, runID string) error {
	_, err := p.other.ExecContext(ctx, "UPDATE watchdog_sessions SET last_event_at = 'yesterday' WHERE run_id = ?", runID)
	return err
}

// optional returns NULL for a zero time.
func optional(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return sqlite.FormatTime(at)
}

// TestOneConnection checks that a store opens no second connection, which would read the schema again, for a caller
// that reads and then appends.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"))
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, second(s.Read(t.Context(), event.AggregateType, "run")))
	require.NoError(t, s.Append(t.Context(), event.Event{
		ID: "1", AggregateType: event.AggregateType, AggregateID: "run", Type: "note", Payload: []byte("{}"),
		Timestamp: time.Now(),
	}))
	require.Equal(t, 1, s.Connections())
}

// childVariable makes the test binary the other process of these tests. Its value is the job and its arguments.
const childVariable = "WATCHDOG_SQLITE_CHILD"

// childJobs get the file of the database and the argument of the job.
var childJobs = map[string]func(file, argument string) error{
	"append until killed": appendUntilKilled,
	"hold until killed":   holdUntilKilled,
	"race":                raceForIDs,
	"open and append":     openAndAppend,
	"read only":           func(file, _ string) error { return readOnly(file) },
}

// runChild does a job and returns the exit code.
func runChild(job string) int {
	arguments := append(strings.Split(job, "\n"), "")
	do := childJobs[arguments[0]]
	if do == nil {
		fmt.Printf("error: no such job: %q\n", job)
		return 1
	}
	if err := do(arguments[1], arguments[2]); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// appendUntilKilled appends from four goroutines and prints the ID of each append that returned.
func appendUntilKilled(file, round string) error {
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for writer := range 4 {
		go func() {
			for n := range int64(1 << 40) {
				e := numbered(n)
				e.ID = fmt.Sprintf("%s-%d-%d", round, writer, n)
				if err := s.Append(context.Background(), e); err != nil {
					failed <- err
				}
				fmt.Println(e.ID)
			}
		}()
	}
	return <-failed
}

const contested = 40

// raceForIDs appends events with the same IDs as other processes, and prints whose event it then reads.
func raceForIDs(file, name string) error {
	return whenStarted(file, func(s *sqlite.Store) error {
		for n := range int64(contested) {
			e := numbered(n)
			e.AggregateID, e.Payload = e.ID, fmt.Appendf(nil, `{"by":%q}`, name)
			if err := s.Append(context.Background(), e); err != nil {
				return err
			}
			stored, err := s.Read(context.Background(), e.AggregateType, e.AggregateID)
			if err != nil {
				return err
			}
			fmt.Println(len(stored), stored[0].ID, string(stored[0].Payload))
		}
		return nil
	})
}

func openAndAppend(file, name string) error {
	n, _ := strconv.ParseInt(name, 10, 64)
	return whenStarted(file, func(s *sqlite.Store) error { return s.Append(context.Background(), numbered(n)) })
}

// readOnly opens a file read-only, reads and tries to write.
func readOnly(file string) error {
	s, err := sqlite.OpenReadOnly(context.Background(), file)
	if err != nil {
		return err
	}
	events, err := s.Read(context.Background(), event.AggregateType, "run-1")
	if err != nil {
		return err
	}
	sessions, err := s.List(context.Background(), session.ListQuery{Limit: 10})
	if err != nil {
		return err
	}
	if err := s.Append(context.Background(), numbered(2)); !errors.Is(err, sqlite.ErrReadOnly) {
		return fmt.Errorf("append: %w", err)
	}
	fmt.Println("read", len(events), "events and", len(sessions.Sessions), "sessions")
	return s.Close()
}

// whenStarted opens a store when the parent closes the pipe that is the input of all children, and closes it.
func whenStarted(file string, do func(s *sqlite.Store) error) error {
	_, _ = io.Copy(io.Discard, os.Stdin)
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

func child(t *testing.T, job ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join(job, "\n"))
	return cmd
}

// together runs children that start their work at the same time, and returns their outputs.
func together(t *testing.T, children []*exec.Cmd) []string {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	var all sync.WaitGroup
	outputs := make([]string, len(children))
	for i, cmd := range children {
		cmd.Stdin = read
		all.Go(func() {
			output, err := cmd.CombinedOutput()
			outputs[i] = string(output)
			assert.NoError(t, err, outputs[i])
		})
	}
	write.Close()
	all.Wait()
	read.Close()
	return outputs
}

// Every append that returned nil is stored after SIGKILL.
func TestKill(t *testing.T) {
	t.Parallel()
	const rounds = 20
	file := newFile(t)
	var acknowledged []string
	for round := range rounds {
		acknowledged = append(acknowledged, appendAndKill(t, file, round)...)
		stored := ids(read(t, openAt(t, file)))
		slices.Sort(stored)
		for _, id := range acknowledged {
			if _, found := slices.BinarySearch(stored, id); !found {
				t.Fatalf("round %d: Append of %s returned nil, but after the kill it is not among %d events",
					round, id, len(stored))
			}
		}
	}
	require.Equal(t, []string{"ok"}, queryAll(t, openPlain(t, file), "PRAGMA integrity_check"))
	t.Logf("%d acknowledged appends in %d rounds", len(acknowledged), rounds)
}

// appendAndKill kills a child after a random number of appends, and returns the IDs that the child printed.
func appendAndKill(t *testing.T, file string, round int) (acknowledged []string) {
	t.Helper()
	cmd := child(t, "append until killed", file, strconv.Itoa(round))
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	last := 1 + rand.IntN(60)
	lines := bufio.NewReader(output)
	for line, err := lines.ReadString('\n'); err == nil; line, err = lines.ReadString('\n') {
		if strings.HasPrefix(line, "error:") {
			t.Error(line)
		}
		if acknowledged = append(acknowledged, strings.TrimSpace(line)); len(acknowledged) == last {
			_ = cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err == nil || len(acknowledged) < last {
		t.Fatalf("the child ended by itself after %d appends: %v", len(acknowledged), err)
	}
	return acknowledged
}

// Processes that append the same IDs keep one event of each, and all read the same one.
func TestProcessesShareIDs(t *testing.T) {
	const processes = 4
	file := newFile(t)
	var children []*exec.Cmd
	for n := range processes {
		children = append(children, child(t, "race", file, strconv.Itoa(n)))
	}
	outputs := together(t, children)
	for _, output := range outputs {
		require.Equal(t, outputs[0], output)
		require.Equal(t, contested-1, strings.Count(output, "\n1 event-"))
	}
	db := openPlain(t, file)
	got := queryAll(t, db, "SELECT count(*), count(DISTINCT id) FROM events")
	require.Equal(t, []string{"40", "40"}, got)
	winners := queryAll(t, db, "SELECT DISTINCT json_extract(payload, '$.by') FROM events")
	t.Logf("%d of %d processes won an ID", len(winners), processes)
}

// Several processes may create one database at once.
func TestProcessesOpenAtOnce(t *testing.T) {
	const processes, rounds = 6, 3
	for round := range rounds {
		file := newFile(t)
		if round == 1 {
			mustExec(t, openPlain(t, file), tableWith("tenant TEXT"))
		}
		var children []*exec.Cmd
		for n := range processes {
			children = append(children, child(t, "open and append", file, strconv.Itoa(n)))
		}
		together(t, children)
		require.Len(t, read(t, openAt(t, file)), processes)
		db := openPlain(t, file)
		require.Equal(t, []string{"8"}, queryAll(t, db, "SELECT version FROM watchdog_schema"))
		require.Equal(t, ownIndexes, indexes(t, db))
	}
}

var _ event.Store = (*sqlite.Store)(nil)

// TestImpatientCallers protects, under the race detector, that what a call returns whose context ends while it is being
// written is not written any more, as the named result of a function was to which the write belonged.
func TestImpatientCallers(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	require.NoError(t, s.BeginLease(t.Context(), session.Lease{ID: "lease", Promise: time.Minute}))
	_, attached, err := s.Attach(t.Context(), session.Session{RunID: "run-0"})
	require.NoError(t, err)
	for name, call := range map[string]func(ctx context.Context, n int) (answer any, err error){
		"attach": func(ctx context.Context, n int) (any, error) {
			_, after, err := s.Attach(ctx, session.Session{RunID: fmt.Sprint("run-", n)})
			return after, err
		},
		"claim": func(ctx context.Context, _ int) (any, error) {
			return s.Claim(ctx, attached, session.ClaimRequest{By: "sweeper"})
		},
		"expire a lease": func(ctx context.Context, n int) (any, error) {
			expired, _, err := s.ExpireLease(ctx, session.Lease{ID: fmt.Sprint("lease-", n)})
			return expired, err
		},
		"observe leases": func(ctx context.Context, _ int) (any, error) {
			return s.ObserveLeases(ctx, []string{"lease"})
		},
		"the ends of a lease": func(ctx context.Context, _ int) (any, error) {
			return s.Ended(ctx, "lease", []session.AttemptID{{RunID: "run-0", Attempt: 1}})
		},
		"freshen": func(ctx context.Context, _ int) (any, error) {
			skipped, err := s.Freshen(ctx, "lease", []session.Freshness{{RunID: "run-0", Attempt: 1}})
			return skipped.Gone, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(int(2*time.Millisecond))))
				answer, err := call(ctx, n)
				cancel()
				if err != nil {
					require.Empty(t, answer)
				}
			}
		})
	}
}
