package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// A reader has the database of [OpenReadOnly]. SQLite cannot read a file in WAL mode without a log and its index, and
// would create them. If there is no log the file is opened as one that never changes, and the reader finds out whether
// it did; if there is one, the file is opened as a reader beside others.
type reader struct {
	mu     sync.RWMutex // held for reading during a query, and for writing while the database is opened again
	frozen bool         // it is open as a file that never changes
	at     condition    // when it was opened so
}

// A condition of a file is another one after each change.
type condition struct {
	size     int64
	modified time.Time
	log      bool
}

// conditionOf looks at the file. An empty log without an index is one that a reader left.
func conditionOf(file string) (c condition, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return c, err
	}
	log, err := os.Stat(file + "-wal")
	if err == nil && log.Size() == 0 {
		_, err = os.Stat(file + "-shm")
	}
	return condition{info.Size(), info.ModTime(), err == nil}, nil
}

// readCommitted runs a query. A store of OpenReadOnly repeats it if the file has changed under it.
func (s *Store) readCommitted(ctx context.Context, query func() error) error {
	if s.reader == nil {
		return query()
	}
	const tries = 100
	torn := errors.New("other programs went on changing the file while it was read: try again")
	for range tries {
		found, err := conditionOf(s.file)
		if err == nil {
			err = s.openFor(ctx, found)
		}
		if err != nil {
			return err
		}
		switch err, valid := s.readOnce(query); {
		case err != nil && strings.Contains(err.Error(), tornIndex):
			torn = err // to repair the index it would have to write
		case valid:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return torn
}

// readOnce runs a query, and reports whether the file was the same before and after it.
func (s *Store) readOnce(query func() error) (err error, valid bool) { //nolint:revive // valid tells whether err counts
	s.reader.mu.RLock()
	defer s.reader.mu.RUnlock()
	if err = query(); !s.reader.frozen {
		return err, true
	}
	after, lookErr := conditionOf(s.file)
	return err, lookErr == nil && after == s.reader.at
}

// openFor opens the file for its condition, unless it is open so.
func (s *Store) openFor(ctx context.Context, found condition) error {
	r := s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.db != nil && (!r.frozen || found == r.at) {
		return nil
	}
	frozen, err := isFrozen(s.file, found)
	if err != nil {
		return err
	}
	how := "readonly_shm=1" // it does not write the index of the log, either
	if frozen {
		how = "immutable=1"
	}
	db, err := openFile(s.file, "mode=ro", how)
	if err != nil {
		return err
	}
	if s.db != nil {
		s.selection.close()
		s.stalled.close()
		_ = s.db.Close() // nothing was written
	}
	s.db, r.frozen, r.at = db, frozen, found
	// The first connection keeps writers from deleting the log, as long as it is there.
	return s.retryWhileLocked(ctx, func() error { return db.PingContext(ctx) })
}

// isFrozen reports whether the file is to be opened as one that never changes: in WAL mode, and without a log.
func isFrozen(file string, c condition) (bool, error) {
	if c.log {
		return false, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return false, fmt.Errorf("%w (this user cannot read it: check the permissions)", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	var header [20]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return false, nil // SQLite says what is wrong with it
	}
	const readVersion, wal = 19, 2
	return header[readVersion] == wal, nil
}

// tornIndex is the error of a reader that found the index of the log half written, and no writer: that has ended.
const tornIndex = "attempt to write a readonly database"

// readerAdvice is advice for a store that was opened read-only.
var readerAdvice = []struct{ text, advice string }{
	{"no such table", storeflow.OlderSchemaAdvice},
	{"unable to open database file",
		"this user cannot read the file or its log, or the log (-wal) has no index (-shm): check the permissions, " +
			"or open it once with a program that writes"},
	{tornIndex, "a program that wrote to it has died: open it once with a program that writes"},
}
