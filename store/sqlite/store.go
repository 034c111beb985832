package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// lockWait is how long a call waits for a connection, and for a lock of another writer. It is less than the record
// timeout of a watchdog, so that the watchdog's error says what blocked it.
const lockWait = 4 * time.Second

// A Store is a [session.Store], a [session.Lister], a [event.TransactionalStore] and a [event.LayerStore] in an
// SQLite database; the package comment describes its tables. [Open], [New] and the methods of [Config] return one. It
// is safe for concurrent use, and several processes may use one file.
type Store struct {
	db         *sql.DB
	file       string // for errors
	owned      bool   // opened by Open, and so closed by Close
	lockWait   time.Duration
	queue      queue
	identity   identity
	idleWriter *writer // kept between commits if the store owns its database; only the committer uses it
	reads      sync.WaitGroup
	stalled    lazyStatement // selectStalled
	selection  lazyStatement // selectSelection
	reader     *reader       // of OpenReadOnly, else nil
}

// readAs is read for a query that returns something, which is nothing after an error.
func readAs[T any](ctx context.Context, s *Store, what string, query func(reading) (T, error)) (result T, err error) {
	err = s.read(ctx, what, func() (err error) {
		result, err = query(reading{ctx: ctx, store: s})
		return err
	})
	if err != nil {
		result = *new(T)
	}
	return result, err
}

// readRows is rowsOf for a call that reads, and what says what.
func readRows[T any](
	ctx context.Context, s *Store, what string, scan func(*sql.Rows) (T, error), statement string, arguments ...any,
) (all []T, err error) {
	return readAs(ctx, s, what, func(r reading) ([]T, error) { return rowsOf(r, scan, statement, arguments...) })
}

// read runs a query, and repeats it while the database is locked. Close waits for it.
func (s *Store) read(ctx context.Context, what string, query func() error) error {
	s.queue.mu.Lock()
	err := cmp.Or(ctx.Err(), s.wrapError("use", s.queue.ended))
	if err == nil {
		s.reads.Add(1)
	}
	s.queue.mu.Unlock()
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	defer s.reads.Done()
	err = s.readCommitted(ctx, func() error { return s.retryWhileLocked(ctx, query) })
	return s.wrapError("read", storeflow.JoinContext(ctx, err))
}

// Close waits for the running appends and reads, and then closes the store; later calls return [ErrClosed]. It closes
// the database of [Open], and not the one given to [New]. If the file is gone it returns an error that wraps
// [ErrFileGone], also of the last appends, which were not told. Closing again does nothing.
func (s *Store) Close() error {
	first := s.queue.close()
	s.reads.Wait()
	s.selection.close()
	s.stalled.close()
	if !first {
		return nil
	}
	err := s.identity.look(s.identity.behind)
	if s.owned && s.db != nil {
		s.returnWriter()
		err = errors.Join(err, s.db.Close())
	}
	return s.wrapError("close", err)
}
