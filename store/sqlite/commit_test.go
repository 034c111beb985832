package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// What is to be written waits for the lock of another program. TestLockedCalls has all calls wait in vain.
func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, s *sqlite.Store) error{
		"an append": func(ctx context.Context, s *sqlite.Store) error { return s.Append(ctx, numbered(1)) },
		"a renewal": func(ctx context.Context, s *sqlite.Store) error { // one statement tries without a transaction first
			err := s.RenewLease(ctx, session.Lease{ID: "none", Beat: 2})
			if errors.Is(err, session.ErrLeaseExpired) {
				return nil
			}
			return fmt.Errorf("the lease was not looked for: %w", err)
		},
	} {
		t.Run(name+", is only delayed if it is released in time", func(t *testing.T) {
			withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
				time.AfterFunc(sqlite.LockWait/2, unlock)
				require.NoError(t, write(t.Context(), s))
			})
		})
		t.Run(name+", ends with its context, and nothing is written", func(t *testing.T) {
			withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				err := write(ctx, s)
				require.Equal(t, time.Second, time.Since(began))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "nothing was written")
				unlock()
				require.NoError(t, s.Append(t.Context(), numbered(2)))
				require.Equal(t, []string{"event-2"}, ids(read(t, s)))
			})
		})
	}
	t.Run("an append that came while another waited says so, too", func(t *testing.T) {
		withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
			defer unlock()
			first := appendLater(t.Context(), s, numbered(1))
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), watchdog.DefaultRecordTimeout)
			defer cancel()
			err := s.Append(ctx, numbered(2))
			errorSays(t, err, "nothing was written", "locked by another writer", "another program is writing to it")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, <-first, "locked by another writer")
		})
	})
}

// Open says that another writer holds the lock.
func TestOpenLockedDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		holder := openPlain(t, file)
		mustExec(t, holder, "CREATE TABLE of_the_host (n)", "BEGIN EXCLUSIVE")
		require.ErrorContains(t, second(sqlite.Open(t.Context(), file)), "locked by another writer")
	})
}

// withLock runs a test in a synctest bubble, while another connection holds the write lock.
func withLock(t *testing.T, test func(t *testing.T, s *sqlite.Store, unlock func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s := openAt(t, file)
		holder := openOne(t, file)
		mustExec(t, holder, "BEGIN IMMEDIATE")
		test(t, s, func() { mustExec(t, holder, "ROLLBACK") })
	})
}

// Append says that the only connection of the pool is in use.
func TestBusyPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := openOne(t, newFile(t))
		s := newStore(t, db)
		transaction, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		err = s.Append(t.Context(), numbered(1))
		require.ErrorContains(t, err, "no connection of the pool came free")
		require.NoError(t, transaction.Rollback())
		require.NoError(t, s.Append(t.Context(), numbered(1)))
	})
}

// With a rollback journal, Append waits for readers.
func TestReaderBlocksJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s := newStore(t, openPlain(t, file, "journal_mode(DELETE)"))
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		rows, err := openPlain(t, file).QueryContext(t.Context(), "SELECT id FROM events UNION ALL SELECT id FROM events")
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { rows.Close() })
		require.NoError(t, s.Append(t.Context(), numbered(2)))
		require.NoError(t, rows.Err())
	})
}

func TestDoneContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := newFile(t)
	require.ErrorIs(t, second(sqlite.Open(ctx, file)), context.Canceled)
	require.Empty(t, files(t, file))
	s := openAt(t, file)
	require.ErrorIs(t, second(s.Read(ctx, event.AggregateType, "run-1")), context.Canceled)
}

// The tests in this file run in synctest bubbles. A gate blocks a commit, and synctest.Wait returns when all other
// goroutines wait.

// A gate counts the commits, and blocks them while it is shut.
type gate struct {
	commits atomic.Int64
	shut    atomic.Bool
	open    chan struct{}
	fail    atomic.Pointer[error] // of the next commit
}

func (g *gate) before(statement string) error {
	if statement != "COMMIT" {
		return nil
	}
	g.commits.Add(1)
	if g.shut.Load() {
		<-g.open
	}
	if err := g.fail.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// release opens the gate for good.
func (g *gate) release() {
	g.shut.Store(false)
	close(g.open)
}

// throughGate runs a test while the gate blocks the store's first commit, with event 0.
func throughGate(t *testing.T, test func(t *testing.T, s *sqlite.Store, g *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		db := hookedDatabase(t, newFile(t), g.before)
		mustExec(t, db, strings.Replace(foreignTable,
			"event_type TEXT NOT NULL", "event_type TEXT NOT NULL CHECK (event_type <> 'unwanted')", 1))
		s := newStore(t, db)
		g.commits.Store(0)
		g.shut.Store(true)
		first := appendLater(t.Context(), s, numbered(0))
		synctest.Wait()
		test(t, s, g)
		require.NoError(t, <-first)
	})
}

// later makes a call in a goroutine and returns a channel with the error.
func later(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	return done
}

func appendLater(ctx context.Context, s *sqlite.Store, events ...event.Event) <-chan error {
	return later(func() error { return s.Append(ctx, events...) })
}

// Appends that arrive during a commit share the next one.
func TestSharedCommit(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		var results []<-chan error
		for n := range int64(10) {
			results = append(results, appendLater(t.Context(), s, numbered(n+1)))
		}
		synctest.Wait()
		g.release()
		for _, result := range results {
			require.NoError(t, <-result)
		}
		require.EqualValues(t, 2, g.commits.Load())
		require.Len(t, read(t, s), 11)
	})
}

// A shared transaction has at most MaxRows rows.
func TestSharedCommitLimit(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		var results []<-chan error
		for batch := range int64(3) {
			var events []event.Event
			for n := range int64(sqlite.MaxRows/2 - 1) {
				events = append(events, numbered(1+batch*sqlite.MaxRows+n))
			}
			results = append(results, appendLater(t.Context(), s, events...))
		}
		synctest.Wait()
		g.release()
		for _, result := range results {
			require.NoError(t, <-result)
		}
		require.EqualValues(t, 3, g.commits.Load())
	})
}

// A batch that cannot be stored does not fail the batches that share its transaction.
func TestSharedCommitFailure(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		bad := numbered(3)
		bad.Type = "unwanted"
		before := appendLater(t.Context(), s, numbered(1))
		refused := appendLater(t.Context(), s, numbered(2), bad)
		after := appendLater(t.Context(), s, numbered(4))
		synctest.Wait()
		g.release()
		require.NoError(t, errors.Join(<-before, <-after))
		require.ErrorContains(t, <-refused, "CHECK constraint failed")
		if got, want := ids(read(t, s)), []string{"event-0", "event-1", "event-4"}; !slices.Equal(got, want) {
			t.Errorf("stored are %q, want %q", got, want)
		}
	})
}

// What waits for a commit when its context ends is withdrawn: it is not written later, nor is Decide called.
func TestCancelWaiting(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, s *sqlite.Store) error{
		"an append": func(ctx context.Context, s *sqlite.Store) error { return s.Append(ctx, numbered(1)) },
		"a transaction": func(ctx context.Context, s *sqlite.Store) error {
			return s.Transact(ctx, exchange(func([]event.Event) []event.Event {
				t.Error("Decide was called")
				return nil
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
				ctx, cancel := context.WithCancel(t.Context())
				withdrawn := later(func() error { return write(ctx, s) })
				synctest.Wait()
				cancel()
				err := <-withdrawn
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorContains(t, err, "nothing was written")
				g.release()
				synctest.Wait()
				require.Equal(t, []string{"event-0"}, ids(read(t, s)))
			})
		})
	}
}

// An append whose context ends during its commit says that it may be stored.
func TestCancelRunningAppend(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		g.release()
		synctest.Wait()
		g.open, g.commits = make(chan struct{}), atomic.Int64{}
		g.shut.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		left := appendLater(ctx, s, numbered(1))
		synctest.Wait()
		cancel()
		err := <-left
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "may still be stored")
		g.release()
		synctest.Wait()
		require.Equal(t, []string{"event-0", "event-1"}, ids(read(t, s)))
	})
}

func TestCloseWaitsForCommits(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		second := appendLater(t.Context(), s, numbered(1))
		synctest.Wait()
		closed := later(s.Close)
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("Close returned %v while a commit was under way", err)
		default:
		}
		require.ErrorIs(t, s.Append(t.Context(), numbered(2)), sqlite.ErrClosed)
		g.release()
		require.NoError(t, errors.Join(<-second, <-closed))
	})
}

// Append returns the error of its commit, and the next append works.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		g.release()
		synctest.Wait()
		flaw := errors.New("disk I/O error")
		g.fail.Store(&flaw)
		err := s.Append(t.Context(), numbered(1))
		require.ErrorIs(t, err, flaw)
		require.ErrorContains(t, err, "events.db")
		require.Equal(t, []string{"event-0"}, ids(read(t, s)))
		require.NoError(t, s.Append(t.Context(), numbered(2)))
	})
}

// A store without requests runs no goroutine.
func TestIdleStore(t *testing.T) {
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		require.Contains(t, stacks(), "commitUntilEmpty")
		g.release()
		synctest.Wait()
		require.NotContains(t, stacks(), "commitUntilEmpty")
	})
}

func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}

// hostDatabase opens a host's database, in WAL mode and with 16 connections.
func hostDatabase(tb testing.TB, file string) *sql.DB {
	tb.Helper()
	db := openPlain(tb, file, "busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)")
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	return db
}

// openPlain opens a database with only these pragmas.
func openPlain(tb testing.TB, file string, pragmas ...string) *sql.DB {
	tb.Helper()
	return openSource(tb, "file:"+file+"?"+url.Values{"_pragma": pragmas}.Encode())
}

// openOne opens a database with one connection.
func openOne(tb testing.TB, file string, pragmas ...string) *sql.DB {
	tb.Helper()
	db := openPlain(tb, file, pragmas...)
	db.SetMaxOpenConns(1)
	return db
}

// openHosted returns a store in a host's new database.
func openHosted(tb testing.TB) (*sqlite.Store, *sql.DB) {
	tb.Helper()
	db := openPlain(tb, newFile(tb))
	return newStore(tb, db), db
}

// openBeside opens a store in a new file, and that as another program.
func openBeside(tb testing.TB) (*sqlite.Store, *sql.DB) {
	tb.Helper()
	file := newFile(tb)
	return openAt(tb, file), openPlain(tb, file, "busy_timeout(10000)")
}

// newStore returns a store in a host's database, and closes it when the test ends.
func newStore(tb testing.TB, db *sql.DB) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.New(tb.Context(), db)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

func mustExec(tb testing.TB, db *sql.DB, statements ...string) {
	tb.Helper()
	for _, statement := range statements {
		require.NoError(tb, second(db.ExecContext(tb.Context(), statement)))
	}
}

// queryAll returns all values of a query as text, row by row.
func queryAll(tb testing.TB, db *sql.DB, query string) (values []string) {
	tb.Helper()
	rows, err := db.QueryContext(tb.Context(), query)
	require.NoError(tb, err)
	defer rows.Close()
	columns, _ := rows.Columns()
	for rows.Next() {
		row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		require.NoError(tb, rows.Scan(into...))
		for _, value := range row {
			if !value.Valid {
				value.String = "NULL"
			}
			values = append(values, value.String)
		}
	}
	require.NoError(tb, rows.Err())
	return values
}

// hookedDatabase opens a database whose driver calls before ahead of every statement. The statement fails if before
// does. The driver implements only what it must: no contexts, and no execution without preparation.
func hookedDatabase(tb testing.TB, file string, before func(statement string) error) *sql.DB {
	tb.Helper()
	base := openPlain(tb, file)
	db := sql.OpenDB(hook{base.Driver(), "file:" + file, before})
	tb.Cleanup(func() { db.Close() })
	return db
}

type hook struct {
	base   driver.Driver
	source string
	before func(string) error
}

func (h hook) Connect(context.Context) (driver.Conn, error) {
	conn, err := h.base.Open(h.source)
	return hookedConn{conn, h.before}, err
}

func (h hook) Driver() driver.Driver { return h.base }

type hookedConn struct {
	driver.Conn
	before func(string) error
}

func (c hookedConn) Prepare(statement string) (driver.Stmt, error) {
	prepared, err := c.Conn.Prepare(statement)
	return hookedStmt{prepared, statement, c.before}, err
}

type hookedStmt struct {
	driver.Stmt
	statement string
	before    func(string) error
}

func (s hookedStmt) Exec(arguments []driver.Value) (driver.Result, error) {
	if err := s.before(s.statement); err != nil {
		return nil, err
	}
	return s.Stmt.Exec(arguments) //nolint:staticcheck // the test is about the old interface
}

func openSource(tb testing.TB, source string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", source)
	require.NoError(tb, err)
	tb.Cleanup(func() { db.Close() })
	return db
}

// decides returns an exchange of run-1 that decides the same whatever is stored.
func decides(events ...event.Event) *event.Exchange {
	return exchange(func([]event.Event) []event.Event { return events })
}

func exchange(decide func(selected []event.Event) []event.Event) *event.Exchange {
	return &event.Exchange{
		Selection: event.Selection{AggregateType: event.AggregateType, AggregateID: "run-1", Since: noon},
		Decide:    decide,
	}
}

// Transactions that arrive during a commit share the next one with appends. One that cannot be stored fails alone.
func TestSharedTransactions(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		unwanted := numbered(4)
		unwanted.ID = ""
		good := decides(numbered(1))
		results := []<-chan error{
			later(func() error { return s.Transact(t.Context(), good) }), appendLater(t.Context(), s, numbered(2)),
			later(func() error { return s.Transact(t.Context(), decides(numbered(3)), decides(unwanted)) }),
		}
		synctest.Wait()
		g.release()
		require.NoError(t, errors.Join(<-results[0], <-results[1]))
		require.ErrorIs(t, <-results[2], event.ErrInvalid)
		require.Equal(t, []string{"event-0", "event-1", "event-2"}, ids(read(t, s)))
		require.Equal(t, []string{"event-1"}, ids(good.Kept))
	})
}

func TestDecideFails(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for name, test := range map[string]struct {
		fail func()
		want any
	}{
		"panics":           {func() { panic("flaw") }, "flaw"},
		"ends a goroutine": {runtime.Goexit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var calls int
			failing := exchange(func([]event.Event) []event.Event {
				calls++
				test.fail()
				return nil
			})
			var err error
			panicked := func() (value any) {
				defer func() { value = recover() }()
				err = s.Transact(t.Context(), decides(numbered(1)), failing)
				return nil
			}()
			if panicked != test.want || (err == nil) != (panicked != nil) || calls != 1 {
				t.Errorf("Transact panicked with %v and returned %v after %d calls of Decide", panicked, err, calls)
			}
			require.Empty(t, read(t, s))
		})
	}
	require.NoError(t, s.Transact(t.Context(), decides(numbered(2))))
}

// A host's trigger may drop a row without an error.
func TestDroppedEvent(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	mustExec(t, db, tableWith(),
		"CREATE TRIGGER drop_it BEFORE INSERT ON events WHEN NEW.id = 'event-2' BEGIN SELECT RAISE(IGNORE); END")
	s := newStore(t, db)
	require.ErrorContains(t, s.Transact(t.Context(), decides(numbered(1), numbered(2))), "event-2 was not stored")
	require.Empty(t, read(t, s))
}

// TestTransactSelectsAsSelect checks that many exchanges in one call select what each would alone, also rows whose time
// another program wrote in a form of its own.
func TestTransactSelectsAsSelect(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for run := range 20 {
		for i := range 6 {
			err := s.Append(t.Context(), event.Event{
				ID: fmt.Sprintf("e-%d-%d", run, i), AggregateType: event.AggregateType, AggregateID: fmt.Sprint("run-", run),
				Type: event.Warning, Payload: []byte(`{}`), Timestamp: start.Add(time.Duration(i) * time.Hour),
			})
			require.NoError(t, err)
		}
	}
	mustExec(t, openPlain(t, file), `UPDATE events SET timestamp = replace(timestamp, ' ', 'T') WHERE id LIKE '%-4'`)
	var exchanges []*event.Exchange
	got := map[int][]event.Event{}
	for run := range 20 {
		selection := event.Selection{
			AggregateType: event.AggregateType, AggregateID: fmt.Sprint("run-", run),
			IDs: []string{fmt.Sprintf("e-%d-0", run), fmt.Sprintf("e-%d-5", run), fmt.Sprintf("e-%d-1", run+1)},
		}
		if run%3 > 0 {
			selection.Since = start.Add(time.Duration(run%5) * time.Hour)
		}
		exchanges = append(exchanges, &event.Exchange{Selection: selection, Decide: func(selected []event.Event) []event.Event {
			got[run] = selected
			return nil
		}})
	}
	require.NoError(t, s.Transact(t.Context(), exchanges...))
	for run, x := range exchanges {
		want, err := s.Select(t.Context(), x.Selection)
		require.NoError(t, err)
		if len(got[run])+len(want) > 0 && !reflect.DeepEqual(got[run], want) {
			t.Errorf("run %d: selected %v, want %v", run, got[run], want)
		}
	}
}

// TestPauseUnderLock protects that a run ends on time whose approval closes, or opens, while a stranger has the
// database locked for longer than the record timeout, and that both are stored afterwards though nobody polls.
func TestPauseUnderLock(t *testing.T) {
	t.Parallel()
	limit := watchdog.HoldLimit{Cap: time.Minute, PausesWallClock: true}
	for name, locked := range map[string]time.Duration{
		"when it opens": 18 * time.Second, "when it closes": 6500 * time.Millisecond,
		"from when it closes until the run has to end": 10500 * time.Millisecond,
	} {
		opensLocked := name == "when it opens"
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := newFile(t)
				s := openAt(t, file)
				holder := openOne(t, file)
				begun := time.Now()
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: begun}, watchdog.Config{
					Store: s, Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{WallClock: 10 * time.Second},
				})
				require.NoError(t, err)
				defer wd.Close()
				lock := func() {
					mustExec(t, holder, "BEGIN IMMEDIATE")
					time.AfterFunc(locked, func() { mustExec(t, holder, "ROLLBACK") })
				}
				if opensLocked {
					lock()
				}
				h, err := wd.Hold(t.Context(), "approval", limit)
				require.NoError(t, err)
				time.Sleep(20 * time.Second)
				if !opensLocked {
					lock()
				}
				h.Close()
				<-wd.Context().Done()
				if lasted := time.Since(begun); lasted < 30*time.Second || lasted > 31*time.Second {
					t.Errorf("the run lasted %v, and 20 s of them were an approval; it has 10 s", lasted)
				}
				require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
				events, err := s.Read(t.Context(), event.AggregateType, "s-1")
				require.NoError(t, err)
				for _, kind := range []string{event.Hold, event.Release, event.Cancel} {
					if !slices.ContainsFunc(events, func(e event.Event) bool { return e.Type == kind }) {
						t.Errorf("%s is not stored", kind)
					}
				}
			})
		})
	}
}
