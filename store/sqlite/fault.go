package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A host may bring any driver, and each has its own type of error. What they have in common is the text, which is
// SQLite's own and has not changed since its version 3.0.
var advice = []struct{ text, advice string }{
	{"database is locked", "another program is writing to it or has it open for itself: end its transaction, or try again"},
	{"locking protocol", "other programs keep it busy: try again"},
	{"attempt to write a readonly database", "nothing can be stored in it: make the file and its folder writable, or name another file"},
	{"database or disk is full", "make room on the disk, or raise max_page_count; what was to be written is not stored"},
	{"file is not a database", "it is damaged, encrypted or no SQLite file: restore it from a backup, or move it away and begin with a new one"},
	{"database disk image is malformed", "it is damaged: restore it from a backup or with the sqlite3 command's .recover, or move it away and begin with a new one"},
	{"unable to open database file", "the file or its folder cannot be written or read by this user, or a folder is missing: check the permissions"},
	{"disk I/O error", "the disk or the file system failed: look into the system's log"},
}

// fault says in which database something failed and what can be done about it.
func (s *Store) fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range advice {
		if strings.Contains(err.Error(), known.text) {
			return fmt.Errorf("%s event database %s: %w (%s)", doing, s.file, err, known.advice)
		}
	}
	return fmt.Errorf("%s event database %s: %w", doing, s.file, err)
}

// isBusy says whether the same call may succeed when others have let go of their locks.
func isBusy(err error) bool {
	if err == nil {
		return false
	}
	for _, text := range []string{"database is locked", "database table is locked", "locking protocol"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// patiently repeats a call that finds the database locked, until it is not, the context ends or lockWait is over.
// The waiting is done here and not left to SQLite's busy timeout: that is the host's to choose, does not end with a
// context, and is not waited at all where two connections could wait for each other.
func (s *Store) patiently(ctx context.Context, call func() error) error {
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
