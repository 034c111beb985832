package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

var (
	// ErrClosed says that the [Store] was closed. Every call of a closed one wraps it.
	ErrClosed = storeflow.ErrClosed
	// ErrNewerSchema says that a newer version of this package has migrated the database. [Open] and [New] wrap it.
	ErrNewerSchema = storeflow.ErrNewerSchema
	// ErrReadOnly says that the [Store] is of [OpenReadOnly]. Every call that writes wraps it, and changes nothing.
	ErrReadOnly = storeflow.ErrReadOnly
	// ErrFileGone says that the file of the [Store] was deleted, moved or replaced while the store had it open. The store
	// looks after a commit, once a second at most, and when it is closed. Every call wraps it from then on, those that
	// read and Close as well: what was stored since the last look that was good, whose time the error has, may be in no
	// file, and a store that is opened again has the file that is there. A database in memory has none, and a path that
	// cannot be followed says nothing.
	ErrFileGone = errors.New("the path no longer leads to the file that the store opened")
	// ErrForeignTable says that the database has a table named events or watchdog_sessions, or another of this package's
	// names, that it cannot use. [Open] and [New] wrap it. The error names the columns that are missing or in the way.
	// Nothing was written.
	ErrForeignTable = errors.New("a table in it cannot hold what the watchdog writes: change that table, " +
		"or keep events and sessions in a database of their own")
)

// Each driver that a host may use has its own error type. All have SQLite's message, unchanged since version 3.0.
var advice = []struct{ text, advice string }{
	{ErrFileGone.Error(),
		"what was stored after that may be lost: put the file back or restore it, and open the store again"},
	{"database is locked",
		"another program is writing to it or has opened it exclusively: end its transaction, or try again"},
	{"locking protocol", "other programs keep it busy: try again"},
	{"attempt to write a readonly database",
		"nothing can be stored in it: make the file and its folder writable, or name another file"},
	{"database or disk is full", "make room on the disk, or raise max_page_count; the last write was not stored"},
	{"file is not a database",
		"it is damaged, encrypted or not an SQLite file: restore it from a backup, or move it away and start with a new one"},
	{"database disk image is malformed",
		"it is damaged: restore it from a backup or with .recover of the sqlite3 command, " +
			"or move it away and start with a new one"},
	{"unable to open database file",
		"this user cannot read or write the file or its folder, or a folder is missing: check the permissions"},
	{"disk I/O error", "the disk or the file system failed: look into the system log"},
}

func (s *Store) adviceFor(err error) string {
	all := advice
	if s.reader != nil {
		all = slices.Concat(readerAdvice, advice)
	}
	for _, known := range all {
		if strings.Contains(err.Error(), known.text) {
			return known.advice
		}
	}
	return ""
}

// wrapError names the database, and says what a person can do about the error. That of a closed store names none.
func (s *Store) wrapError(doing string, err error) error {
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return storeflow.WrapError(doing, s.file, err, s.adviceFor(err))
}

// isBusy reports whether the same call may succeed when others release their locks.
func isBusy(err error) bool {
	says := func(text string) bool { return strings.Contains(err.Error(), text) }
	return err != nil && (says("database is locked") || says("database table is locked") || says("locking protocol"))
}

// isRefusal reports whether the database refuses a row for what is in it, or because of a trigger of the host's.
func isRefusal(err error) bool { return strings.Contains(err.Error(), "constraint failed") }

// retryWhileLocked repeats a call while the database is locked, until ctx is done or lockWait has passed. It does not
// leave the waiting to SQLite's busy timeout: the host chooses that one, it does not end with a context, and SQLite
// skips it where two connections could wait for each other.
func (s *Store) retryWhileLocked(ctx context.Context, call func() error) error {
	const longestPause = 8 * time.Millisecond
	err := call()
	for began, pause := time.Now(), time.Millisecond; isBusy(err); pause = min(2*pause, longestPause) {
		if time.Since(began) > s.lockWait {
			return fmt.Errorf("locked by another writer for %v: %w", s.lockWait, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
		err = call()
	}
	return err
}

func lockedError(err error) error { return storeflow.Locked(isBusy(err), err) }

func orLocked[T any](result T, err error) (T, error) { return result, lockedError(err) }
