package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver of Open

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// lockWait is how long a call waits for a connection, and for a lock of another writer. It is less than the record
// timeout of a watchdog, so that the watchdog's error says what blocked it.
const lockWait = 4 * time.Second

// A Config opens a store with settings. The zero value is what [Open] and [New] use.
type Config struct {
	// Outbox puts each end of a run's window, a [watchdog.EventCancel] or a [watchdog.EventComplete], into the table
	// watchdog_outbox as well, in the transaction that stores the event, and has the calls of a [session.Outbox] work.
	// Somebody has to claim what is there and finish it, in this process or another, or it stays. False puts none, and
	// these calls return [session.ErrNoOutbox].
	Outbox bool
}

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

// Open opens the database file at path and creates or migrates the schema. It creates the file, but not its folder.
// The error names the file and says what to do. Open does not change a file that it cannot use: one that is damaged,
// read-only, of a newer version ([ErrNewerSchema]) or with another events table ([ErrForeignTable]). The context
// applies to the opening only. Close the store when it is no longer needed.
func Open(ctx context.Context, path string) (*Store, error) { return Config{}.Open(ctx, path) }

// Open is [Open] with settings.
func (c Config) Open(ctx context.Context, path string) (*Store, error) {
	file, err := checkPath(path)
	if err != nil {
		return nil, fmt.Errorf("open event database: %w", err)
	}
	db, err := sql.Open("sqlite", sourceName(file))
	if err != nil {
		return nil, fmt.Errorf("open event database %s: %w", file, err)
	}
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	s := &Store{db: db, file: file, owned: true, outbox: c.Outbox, lockWait: lockWait, followPause: followPause}
	err = s.migrate(ctx)
	if err == nil {
		s.returnWriter() // or the next call would open another connection, which reads the schema again
		err = s.useWAL(ctx)
	}
	if err != nil {
		return nil, errors.Join(s.wrapError("open", err), s.Close())
	}
	s.identity = identify(file)
	return s, nil
}

// New returns a store in the host's own SQLite database, and creates or migrates the schema there. The host keeps the
// database: New does not change its journal mode, and Close does not close it. Errors are those of [Open]. The database
// may be in memory, and is then as durable as memory is.
func New(ctx context.Context, db *sql.DB) (*Store, error) { return Config{}.New(ctx, db) }

// New is [New] with settings.
func (c Config) New(ctx context.Context, db *sql.DB) (*Store, error) {
	if db == nil {
		return nil, errors.New("open event database: the *sql.DB is nil")
	}
	s := &Store{db: db, file: "of the host", outbox: c.Outbox, lockWait: lockWait, followPause: followPause}
	path, err := s.findFile(ctx)
	if err == nil {
		err = s.migrate(ctx)
	}
	if err != nil {
		return nil, s.wrapError("open", err)
	}
	s.identity = identify(path)
	return s, nil
}

// Append implements [watchdog.EventStore]. It returns when the events are durable, or when ctx is done. In that case
// the events are not stored, unless they were being written at that moment; the error says which. An append costs one
// sync of the disk, which it shares with the appends of other goroutines.
func (s *Store) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	rows, err := encode(events)
	if err != nil {
		return err
	}
	err = s.commit(ctx, len(rows), func(t *transaction) error { return t.insertEvents(rows) })
	if errors.Is(err, ErrClosed) {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	return err
}

// Read implements [watchdog.EventStore]. If another program wrote a row whose timestamp or payload cannot be read, Read
// returns an error that names the row.
func (s *Store) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	events, err := readRows(ctx, s, "events", scanEvent(aggregateType, aggregateID), selectEvents,
		aggregateType, aggregateID)
	slices.SortStableFunc(events, watchdog.Event.Compare) // timestamps of other writers may not sort as text
	return events, err
}

const selectEvents = `SELECT ` + eventColumns + ` FROM main.events WHERE ` + ofAggregate

// read runs a query, and repeats it while the database is locked.
func (s *Store) read(ctx context.Context, what string, query func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	if err := s.startRead(); err != nil {
		return fmt.Errorf("read %s: %w", what, s.refusal("use", err))
	}
	defer s.reads.Done()
	locked := func() error { return s.retryWhileLocked(ctx, query) }
	if s.reader != nil {
		return s.wrapError("read", storerows.JoinContext(ctx, s.readCommitted(ctx, locked)))
	}
	err := locked()
	return s.wrapError("read", storerows.JoinContext(ctx, err))
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
