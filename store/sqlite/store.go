package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver of Open

	"github.com/seed62658d38/watchdog/internal/storerows"
)

// lockWait is how long a call waits for a connection, and for a lock of another writer. It is less than the record
// timeout of a watchdog, so that the watchdog's error says what blocked it.
const lockWait = 4 * time.Second

// A Store is a [session.Store], a [session.Lister], a [session.Outbox], a [watchdog.TransactionalStore], a
// [watchdog.FeedStore] and a [watchdog.SpendStore] in an SQLite database; the package comment describes its tables.
// [Open], [New] and the methods of [Config] return one. It is safe for concurrent use, and several processes may use
// one file.
type Store struct {
	db          *sql.DB
	file        string // for errors
	owned       bool   // opened by Open, and so closed by Close
	outbox      bool
	lockWait    time.Duration
	followPause time.Duration
	queue       queue
	identity    identity
	idleWriter  *writer // kept between commits if the store owns its database; only the committer uses it
	reads       sync.WaitGroup
	stalled     lazyStatement // selectStalled
	selection   lazyStatement // selectSelection
	reader      *reader       // of OpenReadOnly, else nil
}

// readAs is read for a query that returns something, which is nothing after an error.
func readAs[T any](ctx context.Context, s *Store, what string, query func(reading) (T, error)) (result T, err error) {
	var found T
	err = s.read(ctx, what, func() (err error) {
		found, err = query(reading{ctx: ctx, store: s})
		return err
	})
	if err != nil {
		return result, err
	}
	return found, nil
}

// read runs a query, and repeats it while the database is locked.
func (s *Store) read(ctx context.Context, what string, query func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	if err := s.startRead(); err != nil {
		return fmt.Errorf("read %s: %w", what, s.wrapError("use", err))
	}
	defer s.reads.Done()
	read := func() error { return s.retryWhileLocked(ctx, query) }
	if s.reader != nil {
		return s.wrapError("read", storerows.JoinContext(ctx, s.readCommitted(ctx, read)))
	}
	return s.wrapError("read", storerows.JoinContext(ctx, read()))
}

// Close waits for the running appends and reads, and then closes the store; later calls return [ErrClosed]. It closes
// the database of [Open], and not the one given to [New]. If the file is gone it returns an error that wraps
// [ErrFileGone], also of the last appends, which were not told. Closing again does nothing.
func (s *Store) Close() error {
	first := s.queue.close()
	s.reads.Wait()
	s.closeStatements()
	if !first {
		return nil
	}
	err := s.identity.atLast()
	if s.owned && s.db != nil {
		s.returnWriter()
		err = errors.Join(err, s.db.Close())
	}
	return s.wrapError("close", err)
}

// startRead counts a read, so that Close waits for it.
func (s *Store) startRead() error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if err := s.queue.usable(); err != nil {
		return err
	}
	s.reads.Add(1)
	return nil
}
