package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/ramdisk"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(childVariable); job != "" {
		os.Exit(runChild(job))
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" { // a sync of a file in memory costs nothing
		ramdisk.Use()
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
	"opened from a path": {long: true, each: true, open: func(t *testing.T) putter {
		file := newFile(t)
		require.NoError(t, os.WriteFile(file, emptyStore(t), 0o600))
		s := openAt(t, file)
		return putter{Store: s, other: openPlain(t, file, "busy_timeout(10000)", "synchronous(OFF)")}
	}},
	"opened from a path, with an outbox": {open: func(t *testing.T) putter {
		file := newFile(t)
		s := openWith(t, file, withOutbox)
		return putter{Store: s, other: openPlain(t, file, "busy_timeout(10000)", "synchronous(OFF)")}
	}},
	"in a pool of one connection, with an outbox": {long: true, open: func(t *testing.T) putter {
		// The rollback journal of a file, which is in use without WAL, is synced several times for each write.
		db := openOne(t, newFile(t), "busy_timeout(0)", "journal_mode(MEMORY)")
		return putter{Store: newStoreWith(t, db, withOutbox), other: db}
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
			if setup.slow && racing.Enabled || setup.long && !racing.Long {
				t.Skip("runs in plain or in long tests only")
			}
			t.Parallel()
			if setup.each {
				test(t, func(t *testing.T) putter { return setup.open(t).hurried() })
				return
			}
			all := setup.open(t).hurried()
			test(t, all.emptied)
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	inEachSetup(t, func(t *testing.T, open func(t *testing.T) putter) {
		storetest.Run(t, func(t *testing.T) watchdog.EventStore { return open(t) })
	})
}

func TestSessions(t *testing.T) {
	t.Parallel()
	inEachSetup(t, func(t *testing.T, open func(t *testing.T) putter) {
		sessiontest.Run(t, func(t *testing.T) session.Store { return open(t) })
	})
}

func TestSpend(t *testing.T) {
	t.Parallel()
	inEachSetup(t, func(t *testing.T, open func(t *testing.T) putter) {
		storetest.RunSpend(t, func(t *testing.T) watchdog.SpendStore { return open(t) })
	})
}

func TestDurableFile(t *testing.T) {
	t.Parallel()
	storetest.RunDurable(t, func(t *testing.T) func() (watchdog.EventStore, error) {
		file := newFile(t)
		return func() (watchdog.EventStore, error) { return sqlite.Open(t.Context(), file) }
	})
}

func TestDurableHostDatabase(t *testing.T) {
	t.Parallel()
	storetest.RunDurable(t, func(t *testing.T) func() (watchdog.EventStore, error) {
		db := hostDatabase(t, newFile(t))
		return func() (watchdog.EventStore, error) { return sqlite.New(t.Context(), db) }
	})
}

func TestCloseWaitsForCalls(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	var calls sync.WaitGroup
	for n := range int64(32) {
		calls.Go(func() {
			_, readErr := s.Read(t.Context(), watchdog.AggregateType, "run-1")
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
	return openWith(tb, file, sqlite.Config{})
}

func openWith(tb testing.TB, file string, cfg sqlite.Config) *sqlite.Store {
	tb.Helper()
	s, err := cfg.Open(tb.Context(), file)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, s.Close()) })
	return s
}

var withOutbox = sqlite.Config{Outbox: true}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// numbered returns the n-th event of run-1.
func numbered(n int64) watchdog.Event {
	return watchdog.Event{
		ID:            fmt.Sprintf("event-%d", n),
		AggregateType: watchdog.AggregateType,
		AggregateID:   "run-1",
		Type:          watchdog.EventCancel,
		Payload:       fmt.Appendf(nil, `{"reason":"wall_clock_exceeded","n":%d}`, n),
		Timestamp:     noon.Add(time.Duration(n) * time.Second),
	}
}

// read returns the events of run-1.
func read(tb testing.TB, s *sqlite.Store) []watchdog.Event {
	tb.Helper()
	events, err := s.Read(tb.Context(), watchdog.AggregateType, "run-1")
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

func ids(events []watchdog.Event) (names []string) {
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

// hurried returns the store after it was set to look at the table often while it is followed.
func (p putter) hurried() putter {
	p.SetFollowPause(10 * time.Millisecond)
	return p
}

// emptied returns the store after it deleted all rows, for the next rule. That rule does not close it.
func (p putter) emptied(t *testing.T) putter {
	t.Helper()
	mustExec(t, p.other, "BEGIN; DELETE FROM events; DELETE FROM watchdog_sessions; DELETE FROM watchdog_leases; "+
		"DELETE FROM watchdog_spend; DELETE FROM watchdog_slices; DELETE FROM watchdog_outbox; COMMIT")
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
	_, err = s.Read(t.Context(), watchdog.AggregateType, "run")
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), watchdog.Event{
		ID: "1", AggregateType: watchdog.AggregateType, AggregateID: "run", Type: "note", Payload: []byte("{}"),
		Timestamp: time.Now(),
	}))
	require.Equal(t, 1, s.Connections())
}
