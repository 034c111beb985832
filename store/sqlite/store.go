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
)

// ErrClosed is wrapped by what every call of a [Store] that was closed returns.
var ErrClosed = errors.New("the event store is closed")

// lockWait is how long a call waits for a connection and for a lock that another writer holds: less than the record
// timeout of a watchdog, so that its error says what stood in the way.
const lockWait = 4 * time.Second

// A Store is a [session.Store] in a SQLite database; see the package comment for its tables. [Open] and [New]
// make one. It is safe for concurrent use, also by several processes on one file.
type Store struct {
	db       *sql.DB
	file     string // for errors
	owned    bool   // by us: opened by Open, closed by Close
	lockWait time.Duration
	queue    queue
	kept     *writer // between commits, by a store that owns its database; only the committer touches it
	reads    sync.WaitGroup
	finding  finding
}

// Open opens the database file at path, which need not exist while its folder does, and creates or migrates the
// schema. The error names the file and says what to do; a file that is not ours to use, because it is damaged,
// read-only, of a newer version ([ErrNewerSchema]) or has another events table ([ErrForeignTable]), is left as it is.
// The context bounds the opening only. Close the store when it is no longer needed.
func Open(ctx context.Context, path string) (*Store, error) {
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
	s := &Store{db: db, file: file, owned: true, lockWait: lockWait}
	err = s.migrate(ctx)
	if err == nil {
		err = s.useWAL(ctx)
	}
	if err != nil {
		return nil, errors.Join(s.fault("open", err), s.Close())
	}
	return s, nil
}

// New makes a store in the host's own SQLite database, and creates or migrates the schema there. The host keeps the
// database: its journal mode stays as it is, and Close does not close it. Errors are those of [Open]. A
// database in memory is taken as it is, durable as far as it goes.
func New(ctx context.Context, db *sql.DB) (*Store, error) {
	if db == nil {
		return nil, errors.New("open event database: the *sql.DB is nil")
	}
	s := &Store{db: db, file: "of the host", lockWait: lockWait}
	err := s.learnFile(ctx)
	if err == nil {
		err = s.migrate(ctx)
	}
	if err != nil {
		return nil, s.fault("open", err)
	}
	return s, nil
}

// Append implements [watchdog.EventStore]. It returns when the events are durable, or when ctx ends: then the events are
// withdrawn, unless they are being written at that moment, and the error says so. An append
// costs one sync of the disk, which it shares with the appends of other goroutines.
func (s *Store) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	rows, err := encode(events)
	if err != nil {
		return err
	}
	err = s.commit(ctx, len(rows), func(t *transaction) error { return t.insert(rows) })
	if errors.Is(err, ErrClosed) {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	return err
}

// Read implements [watchdog.EventStore]. A row that another program wrote and that is no event, because its timestamp
// or its payload cannot be read, is an error that names the row.
func (s *Store) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	var events []watchdog.Event
	err := s.read(ctx, "events", func() (err error) {
		events, err = s.query(ctx, aggregateType, aggregateID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

// read asks the database something, again where it is locked.
func (s *Store) read(ctx context.Context, what string, query func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	if err := s.startRead(); err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	defer s.reads.Done()
	err := s.patiently(ctx, query)
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = errors.Join(ended, err) // a driver may call it "interrupted"
	}
	return s.fault("read", err)
}

// Close waits for the appends and reads that are under way and then ends the store; later ones return [ErrClosed].
// It closes the database that [Open] opened and leaves the one given to [New] open. Closing again does nothing.
func (s *Store) Close() error {
	first := s.queue.close()
	s.reads.Wait()
	s.finding.close()
	if !first || !s.owned {
		return nil
	}
	if s.kept != nil {
		s.kept.close()
	}
	return s.fault("close", s.db.Close())
}

// startRead counts a read that Close has to wait for.
func (s *Store) startRead() error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.queue.closed {
		return ErrClosed
	}
	s.reads.Add(1)
	return nil
}

const selectEvents = `
	SELECT id, event_type, CAST(payload AS TEXT), CAST(timestamp AS TEXT), consensus_id FROM main.events
	WHERE aggregate_type = ? COLLATE BINARY AND aggregate_id = ? COLLATE BINARY`

// query reads an aggregate. The order is made here and not by SQL: timestamps of other writers need not sort as text.
func (s *Store) query(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	rows, err := s.db.QueryContext(ctx, selectEvents, aggregateType, aggregateID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err
	events := []watchdog.Event{}
	for rows.Next() {
		e, err := scan(rows)
		if err != nil {
			return nil, err
		}
		e.AggregateType, e.AggregateID = aggregateType, aggregateID
		events = append(events, e)
	}
	slices.SortStableFunc(events, watchdog.Event.Compare)
	return events, rows.Err()
}
