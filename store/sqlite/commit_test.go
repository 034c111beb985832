package sqlite_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	t.Run("is an error that says so, after the wait", func(t *testing.T) {
		withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
			began := time.Now()
			err := s.Append(t.Context(), numbered(1))
			waited := time.Since(began)
			for _, want := range []string{"locked by another writer", "events.db", "another program is writing to it"} {
				if !errorHas(err, want) {
					t.Errorf("Append returned %v, want %q in it", err, want)
				}
			}
			if waited < sqlite.LockWait || waited > 2*sqlite.LockWait {
				t.Errorf("waited %v for the lock, want %v", waited, sqlite.LockWait)
			}
			unlock()
			if err := s.Append(t.Context(), numbered(1)); err != nil {
				t.Errorf("Append after the lock was let go: %v", err)
			}
		})
	})
	t.Run("is an error that says so also for an append that came while another waited", func(t *testing.T) {
		withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
			defer unlock()
			first := appendLater(t.Context(), s, numbered(1))
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), watchdog.DefaultRecordTimeout)
			defer cancel()
			err := s.Append(ctx, numbered(2))
			for _, want := range []string{"nothing was written", "locked by another writer", "another program is writing to it"} {
				if !errorHas(err, want) {
					t.Errorf("Append returned %v, want %q in it", err, want)
				}
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Append returned %v", err)
			}
			if err := <-first; !errorHas(err, "locked by another writer") {
				t.Errorf("the first Append returned %v", err)
			}
		})
	})
	t.Run("only delays an append if it is released in time", func(t *testing.T) {
		withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
			time.AfterFunc(sqlite.LockWait/2, unlock)
			if err := s.Append(t.Context(), numbered(1)); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestLockDoesNotBlock(t *testing.T) {
	t.Parallel()
	t.Run("a caller whose context ends, and nothing is written", func(t *testing.T) {
		withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			err := s.Append(ctx, numbered(1))
			if waited := time.Since(began); waited != time.Second || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Append returned after %v: %v", waited, err)
			}
			unlock()
			if err := s.Append(t.Context(), numbered(2)); err != nil || len(read(t, s)) != 1 {
				t.Errorf("stored are %q, want only event-2; %v", ids(read(t, s)), err)
			}
		})
	})
	t.Run("a reader in WAL mode", func(t *testing.T) {
		withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
			defer unlock()
			if events := read(t, s); len(events) != 0 {
				t.Errorf("read %q", ids(events))
			}
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
		_, err := sqlite.Open(t.Context(), file)
		if !errorHas(err, "locked by another writer") {
			t.Errorf("Open returned %v", err)
		}
	})
}

// withLock runs a test in a synctest bubble, while another connection holds the write lock.
func withLock(t *testing.T, test func(t *testing.T, s *sqlite.Store, unlock func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s := openAt(t, file)
		holder := openPlain(t, file)
		holder.SetMaxOpenConns(1)
		mustExec(t, holder, "BEGIN IMMEDIATE")
		test(t, s, func() { mustExec(t, holder, "ROLLBACK") })
	})
}

// Append says that the only connection of the pool is in use.
func TestBusyPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := openPlain(t, newFile(t))
		db.SetMaxOpenConns(1)
		s := newStore(t, db)
		transaction, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Append(t.Context(), numbered(1))
		if !errorHas(err, "no connection of the pool came free") {
			t.Errorf("Append inside a transaction of the host's only connection returned %v", err)
		}
		if err := transaction.Rollback(); err != nil {
			t.Error(err)
		}
		if err := s.Append(t.Context(), numbered(1)); err != nil {
			t.Errorf("Append after it: %v", err)
		}
	})
}

// With a rollback journal, Append waits for readers.
func TestReaderBlocksJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s := newStore(t, openPlain(t, file, "journal_mode(DELETE)"))
		if err := s.Append(t.Context(), numbered(1)); err != nil {
			t.Fatal(err)
		}
		rows, err := openPlain(t, file).QueryContext(t.Context(), "SELECT id FROM events UNION ALL SELECT id FROM events")
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { rows.Close() })
		if err := s.Append(t.Context(), numbered(2)); err != nil {
			t.Errorf("Append while a reader was there for a second: %v", err)
		}
		if err := rows.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestDoneContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := newFile(t)
	if _, err := sqlite.Open(ctx, file); !errors.Is(err, context.Canceled) {
		t.Errorf("Open returned %v", err)
	}
	if found := files(t, file); len(found) != 0 {
		t.Errorf("Open left %q behind", found)
	}
	s := openAt(t, file)
	if _, err := s.Read(ctx, watchdog.AggregateType, "run-1"); !errors.Is(err, context.Canceled) {
		t.Errorf("Read returned %v", err)
	}
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
		if err := <-first; err != nil {
			t.Errorf("the append whose commit was blocked: %v", err)
		}
	})
}

// appendLater appends in a goroutine and returns a channel with the error.
func appendLater(ctx context.Context, s *sqlite.Store, events ...watchdog.Event) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Append(ctx, events...) }()
	return done
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
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		if commits := g.commits.Load(); commits != 2 || len(read(t, s)) != 11 {
			t.Errorf("11 appends took %d commits, want 2, and stored %d events", commits, len(read(t, s)))
		}
	})
}

// A shared transaction has at most MaxRows rows.
func TestSharedCommitLimit(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		var results []<-chan error
		for batch := range int64(3) {
			var events []watchdog.Event
			for n := range int64(sqlite.MaxRows/2 - 1) {
				events = append(events, numbered(1+batch*sqlite.MaxRows+n))
			}
			results = append(results, appendLater(t.Context(), s, events...))
		}
		synctest.Wait()
		g.release()
		for _, result := range results {
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		if commits := g.commits.Load(); commits != 3 {
			t.Errorf("one row and three batches of nearly half a transaction took %d commits, want 3", commits)
		}
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
		if err := errors.Join(<-before, <-after); err != nil {
			t.Errorf("the others' appends: %v", err)
		}
		if err := <-refused; !errorHas(err, "CHECK constraint failed") {
			t.Errorf("the bad batch: %v", err)
		}
		if got, want := ids(read(t, s)), []string{"event-0", "event-1", "event-4"}; !slices.Equal(got, want) {
			t.Errorf("stored are %q, want %q", got, want)
		}
	})
}

// An append whose context ends while it waits is withdrawn.
func TestCancelWaitingAppend(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		ctx, cancel := context.WithCancel(t.Context())
		withdrawn := appendLater(ctx, s, numbered(1))
		synctest.Wait()
		cancel()
		err := <-withdrawn
		if !errors.Is(err, context.Canceled) || !errorHas(err, "nothing was written") {
			t.Errorf("Append returned %v", err)
		}
		g.release()
		synctest.Wait()
		if got := ids(read(t, s)); !slices.Equal(got, []string{"event-0"}) {
			t.Errorf("stored are %q, want only event-0", got)
		}
	})
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
		if !errors.Is(err, context.Canceled) || !errorHas(err, "may still be stored") {
			t.Errorf("Append returned %v", err)
		}
		g.release()
		synctest.Wait()
		if got := ids(read(t, s)); !slices.Equal(got, []string{"event-0", "event-1"}) {
			t.Errorf("stored are %q, want both", got)
		}
	})
}

func TestCloseWaitsForCommits(t *testing.T) {
	t.Parallel()
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		second := appendLater(t.Context(), s, numbered(1))
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("Close returned %v while a commit was under way", err)
		default:
		}
		if err := s.Append(t.Context(), numbered(2)); !errors.Is(err, sqlite.ErrClosed) {
			t.Errorf("Append after Close returned %v", err)
		}
		g.release()
		if err := errors.Join(<-second, <-closed); err != nil {
			t.Error(err)
		}
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
		if !errors.Is(err, flaw) || !errorHas(err, "events.db") {
			t.Errorf("Append returned %v", err)
		}
		if got := ids(read(t, s)); !slices.Equal(got, []string{"event-0"}) {
			t.Errorf("stored are %q, want only event-0", got)
		}
		if err := s.Append(t.Context(), numbered(2)); err != nil {
			t.Errorf("the append after it: %v", err)
		}
	})
}

// A store without requests runs no goroutine.
func TestIdleStore(t *testing.T) {
	throughGate(t, func(t *testing.T, s *sqlite.Store, g *gate) {
		if !strings.Contains(stacks(), "commitUntilEmpty") {
			t.Error("no committer is seen during a commit, so this test would not see one later")
		}
		g.release()
		synctest.Wait()
		if all := stacks(); strings.Contains(all, "commitUntilEmpty") {
			t.Errorf("the committer is still there:\n%s", all)
		}
	})
}

func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}
