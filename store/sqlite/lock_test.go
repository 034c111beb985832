package sqlite_test

import (
	"context"
	"errors"
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
