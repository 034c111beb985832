package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// ErrClosed is returned by all methods of a [Store] that was closed, but Close.
var ErrClosed = errors.New("the event store is closed")

// A Config says where in a database the tables are. The zero value is ready.
type Config struct {
	// Schema has the tables; it is created if it is not there. Several of them are several stores that know nothing of each other. Empty means the first
	// schema of the connection's search_path.
	Schema string
}

// A Store is a [watchdog.EventStore], a [session.Store] and a [session.Listener] in a PostgreSQL database; see the package comment for its tables. [Open] and [New] make
// one. It is safe for concurrent use, also by several processes on one database.
type Store struct {
	pool    *pgxpool.Pool
	owned   bool // by us: opened by Open, closed by Close
	mode    pgx.QueryExecMode
	address string // for errors
	schema  string // as in Config, or as found

	mu      sync.Mutex
	closed  bool
	closing chan struct{} // closed by the first Close, which listeners do not outlive
	calls   sync.WaitGroup
}

// Open opens the database that a connection string names, a URL or a list of key=value pairs as PostgreSQL's own tools take them, and creates or migrates the schema. The error
// says what to do; a database that is not ours to use, because it is read-only, of a newer version ([ErrNewerSchema]) or has another events table ([ErrForeignTable]), is
// left as it is. The context bounds the opening only. Close the store when it is no longer needed.
func Open(ctx context.Context, dsn string, cfg Config) (*Store, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The parser's error quotes the string, and can only guess where in a wrong one the password is.
		return nil, errors.New("open event database: the connection string cannot be understood: " +
			"write postgres://user:password@host:5432/database with marks in the password escaped, or host=db.internal user=app dbname=agents")
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("open event database %s: %w", addressOf(config), err)
	}
	s, err := open(ctx, pool, cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// New makes a store in the database of the host's own pool, and creates or migrates the schema there. The host keeps the pool: Close does not close it. Errors are those
// of [Open].
func New(ctx context.Context, pool *pgxpool.Pool, cfg Config) (*Store, error) {
	if pool == nil {
		return nil, errors.New("open event database: the *pgxpool.Pool is nil")
	}
	return open(ctx, pool, cfg)
}

func open(ctx context.Context, pool *pgxpool.Pool, cfg Config) (*Store, error) {
	config := pool.Config()
	s := &Store{pool: pool, schema: cfg.Schema, address: addressOf(config), mode: modeOf(config.ConnConfig), closing: make(chan struct{})}
	if flaw := schemaFlaw(cfg.Schema); flaw != "" {
		return nil, fmt.Errorf("open event database %s: the schema name %q %s", s.address, cfg.Schema, flaw)
	}
	if err := s.do(ctx, "open", s.migrate); err != nil {
		return nil, err
	}
	return s, nil
}

// modeOf is how statements are sent: prepared by name where the host does so too, or as described before, which takes no name. Which it is in the end is found out from the first
// connection.
func modeOf(config *pgx.ConnConfig) pgx.QueryExecMode {
	switch {
	case config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && config.StatementCacheCapacity > 0:
		return pgx.QueryExecModeCacheStatement
	case config.DescriptionCacheCapacity > 0:
		return pgx.QueryExecModeCacheDescribe
	default:
		return pgx.QueryExecModeExec
	}
}

// schemaFlaw says what PostgreSQL would cut off or refuse.
func schemaFlaw(name string) string {
	const longest = 63
	switch {
	case len(name) > longest:
		return fmt.Sprintf("has %d bytes, at most %d fit", len(name), longest)
	case strings.ContainsRune(name, 0):
		return "has a NUL in it"
	}
	return ""
}

// Append implements [watchdog.EventStore], in one round trip. It returns when the events are as durable as the server's synchronous_commit makes them. An append whose context ends
// or whose connection breaks may be stored nevertheless; it can be repeated.
func (s *Store) Append(ctx context.Context, events ...watchdog.Event) error {
	columns, err := encode(events)
	if err != nil {
		return err
	}
	return s.do(ctx, fmt.Sprintf("append %d events to", len(events)), func(ctx context.Context) error {
		if len(events) == 0 {
			return nil
		}
		_, err := s.pool.Exec(ctx, s.qualify(insertEvents), s.withMode(columns[:]...)...)
		return err
	})
}

// Read implements [watchdog.EventStore]. A row that another program wrote and that is no event, because its timestamp is infinite, is an error that names the row.
func (s *Store) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	var events []watchdog.Event
	err := s.do(ctx, "read", func(ctx context.Context) (err error) {
		events, err = query(ctx, s, scanEvent, selectEvents, aggregateType, aggregateID)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range events {
		events[i].AggregateType, events[i].AggregateID = aggregateType, aggregateID
	}
	slices.SortFunc(events, watchdog.Event.Compare)
	return events, nil
}

// Close waits for the calls that are under way, ends those of [Store.Listen], and then ends the store; later ones return [ErrClosed]. It closes the pool that [Open] opened and leaves
// the one given to [New] open. It returns nil, also when called again.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		close(s.closing)
	}
	s.calls.Wait()
	if s.owned {
		s.pool.Close()
	}
	return nil
}

// begin counts a call that Close has to wait for.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.calls.Add(1)
	return nil
}

// in puts the tables of a statement into the schema.
func (s *Store) qualify(statement string) string {
	return strings.ReplaceAll(statement, "SCHEMA.", pgx.Identifier{s.schema}.Sanitize()+".")
}

// arguments puts the mode in front of a statement's arguments.
func (s *Store) withMode(arguments ...any) []any {
	return append([]any{s.mode}, arguments...)
}

// query returns what scan makes of the rows; an empty slice where there are none.
func query[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], statement string, arguments ...any) ([]T, error) {
	rows, err := s.pool.Query(ctx, s.qualify(statement), s.withMode(arguments...)...)
	if err != nil {
		return nil, err
	}
	return pgx.AppendRows([]T{}, rows, scan)
}

var (
	_ session.Store    = (*Store)(nil)
	_ session.Listener = (*Store)(nil)
)
