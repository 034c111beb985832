package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A Config says where in a database the tables are. The zero value is ready to use.
type Config struct {
	// Schema is the schema of the tables. Open and New create it if it does not exist. Stores in different schemas
	// are independent of each other. Empty means the first schema of the connection's search_path.
	Schema string
	// Outbox has each transaction that stores the end of a run, a [watchdog.EventCancel] or a [watchdog.EventComplete],
	// also write a row to the table watchdog_outbox, and has the calls of a [session.Outbox] work. Somebody has to claim
	// what is there and finish it, in this process or another, or it stays. False writes none, and these calls return
	// [session.ErrNoOutbox].
	Outbox bool
	// ReadOnly opens the database to read it: Open and New create and migrate nothing, each transaction is read-only, and
	// every call that writes returns [ErrReadOnly]. It works with a standby, and for a role that may only SELECT. In a
	// schema of an older version the events can be read, and a call that needs more returns an error that says so. False
	// reads and writes.
	ReadOnly bool
	// Logger gets what Open and New find that is no error, such as a table of the host's that is too narrow for layers.
	// Nil means [slog.Default].
	Logger *slog.Logger
}

// A Store is a [watchdog.TransactionalStore], a [watchdog.FeedStore], a [watchdog.SpendStore], a [session.Store], a
// [session.Listener], a [session.Lister], a [session.BatchCanceller] and a [session.Outbox] in a PostgreSQL database;
// the package comment describes its tables. [Open] and [New] return one. It is safe for concurrent use, and several
// processes may use one database.
type Store struct {
	pool  *pgxpool.Pool
	owned bool // opened by Open, and so closed by Close
	mode  pgx.QueryExecMode
	// poolMode is what the pool uses by default, and always for a batch.
	poolMode pgx.QueryExecMode
	address  string // database and hosts, for errors
	// severalHosts is true if an error has to say which host it is about.
	severalHosts bool
	schema       string // of Config, or the first of the search_path
	outbox       bool   // of Config
	readOnly     bool   // of Config
	// qualified has what qualify returned: a few dozen statements.
	qualified sync.Map

	leases leaseConn
	spares chan struct{} // has room for those that are open
	// followPause is the shortest pause between two polls of a Follow.
	followPause time.Duration

	mu      sync.Mutex
	closed  bool
	closing chan struct{} // closed by the first Close; ends the listeners
	calls   sync.WaitGroup
}

// Open opens the database of a connection string, and creates or migrates the schema. The string is a URL or a list
// of key=value pairs, as for PostgreSQL's own tools. The error says what to do. Open does not change a database that
// it cannot use: one that is read-only, of a newer version ([ErrNewerSchema]) or with another events table
// ([ErrForeignTable]). The context applies to the opening only. Close the store when it is no longer needed.
func Open(ctx context.Context, dsn string, cfg Config) (*Store, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The parser's error quotes the string, and in a wrong string it cannot find the password to hide it.
		return nil, errors.New("open event database: the connection string cannot be understood: " +
			"write postgres://user:password@host:5432/database with special characters in the password escaped, " +
			"or host=db.internal user=app dbname=agents")
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		address, _ := addressOf(config)
		return nil, fmt.Errorf("open event database %s: %w", address, err)
	}
	s, err := open(ctx, pool, cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// New returns a store in the database of the host's own pool, and creates or migrates the schema there. The host
// keeps the pool: Close does not close it. Errors are those of [Open].
func New(ctx context.Context, pool *pgxpool.Pool, cfg Config) (*Store, error) {
	if pool == nil {
		return nil, errors.New("open event database: the *pgxpool.Pool is nil")
	}
	return open(ctx, pool, cfg)
}

func open(ctx context.Context, pool *pgxpool.Pool, cfg Config) (*Store, error) {
	config := pool.Config()
	s := &Store{
		pool: pool, schema: cfg.Schema, outbox: cfg.Outbox, readOnly: cfg.ReadOnly, closing: make(chan struct{}),
		leases: leaseConn{turn: make(chan struct{}, 1)}, spares: make(chan struct{}, maxSpares),
		mode: modeOf(config.ConnConfig), poolMode: config.ConnConfig.DefaultQueryExecMode, followPause: shortestPause,
	}
	s.address, s.severalHosts = addressOf(config)
	if problem := schemaNameProblem(cfg.Schema); problem != "" {
		return nil, fmt.Errorf("open event database %s: the schema name %q %s", s.address, cfg.Schema, problem)
	}
	prepare := s.migrate
	if s.readOnly {
		prepare = s.checkSchema
	}
	if err := s.do(ctx, "open", prepare); err != nil {
		return nil, err
	}
	if !s.readOnly {
		s.warnOfNarrowIDs(ctx, cmp.Or(cfg.Logger, slog.Default()))
	}
	return s, nil
}

// modeOf returns how the store sends statements: prepared by name if the host's pool does that, and otherwise without
// a name. checkServer lowers the mode if the first connection leads to a pooler.
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

// schemaNameProblem says why PostgreSQL would shorten or refuse the name.
func schemaNameProblem(name string) string {
	const longest = 63
	switch {
	case len(name) > longest:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), longest)
	case strings.ContainsRune(name, 0):
		return "contains a NUL"
	case isTemporary(name):
		return "is that of temporary tables, which vanish with their connection: name another"
	}
	return ""
}

// Append implements [watchdog.EventStore], in one round trip, or two if all events are stored already. It returns when
// the events are as durable as the server's synchronous_commit makes them. If the context ends or the connection
// breaks, the events may still be stored; repeating the append is safe.
func (s *Store) Append(ctx context.Context, events ...watchdog.Event) error {
	columns, err := encode(events)
	if err != nil {
		return err
	}
	return s.write(ctx, fmt.Sprintf("append %d events to", len(events)), func(ctx context.Context) error {
		if len(events) == 0 {
			return nil
		}
		inserted, err := s.exec(ctx, s.insertStatement(), columns[:]...)
		if err == nil && inserted == 0 {
			_, err = s.exec(ctx, awaitStandby)
		}
		return err
	})
}

// Read implements [watchdog.EventStore]. If another program wrote a row with an infinite timestamp or none, Read
// returns an error that names the row.
func (s *Store) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	events, err := ask(ctx, s, s.do, "read", scanEventOf(aggregateType, aggregateID), selectEvents,
		aggregateType, aggregateID)
	slices.SortFunc(events, watchdog.Event.Compare)
	return events, err
}

// Close waits for the running calls, ends those of [Store.Listen] and [Store.Follow], and then closes the store; later
// calls return [ErrClosed]. It closes the pool of [Open], and not the one given to [New]. It always returns nil.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		close(s.closing)
	}
	s.calls.Wait()
	if first {
		s.closeLeases()
	}
	if s.owned {
		s.pool.Close()
	}
	return nil
}

// begin counts a call, so that Close waits for it.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.calls.Add(1)
	return nil
}

// withMode puts the store's mode in front of a statement's arguments.
func (s *Store) withMode(arguments ...any) []any {
	return append([]any{s.mode}, arguments...)
}

// onConn runs a call in a connection of the pool.
func (s *Store) onConn(ctx context.Context, call func(conn *pgx.Conn) error) error {
	conn, release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	err = call(conn)
	if err != nil {
		forgetPrepared(conn)
		err = s.explainRefusal(ctx, conn, err)
	}
	return s.nameServer(conn, err)
}

// together runs statements in a connection of the pool, as limited does.
func (s *Store) together(ctx context.Context, steps ...step) error {
	return s.onConn(ctx, func(conn *pgx.Conn) error { return s.limited(ctx, conn, steps...) })
}

// query returns the scanned rows. If there are none it returns an empty slice, not nil.
func query[T any](
	ctx context.Context, s *Store, scan pgx.RowToFunc[T], statement string, arguments ...any,
) (all []T, err error) {
	err = s.together(ctx, reading(s, &all, scan, statement, arguments...))
	return all, err
}

// queryRow returns the only row of a statement that has one.
func queryRow[T any](
	ctx context.Context, s *Store, scan pgx.RowToFunc[T], statement string, arguments ...any,
) (row T, err error) {
	all, err := query(ctx, s, scan, statement, arguments...)
	if err != nil || len(all) == 0 {
		return row, err
	}
	return all[0], nil
}

// A caller runs a call and wraps its error: do, write or ofOutbox.
type caller func(ctx context.Context, doing string, call func(context.Context) error) error

// ask is query for a call of its own. After an error it returns no rows.
func ask[T any](
	ctx context.Context, s *Store, by caller, doing string, scan pgx.RowToFunc[T], statement string, arguments ...any,
) (all []T, err error) {
	err = by(ctx, doing, func(ctx context.Context) (err error) {
		all, err = query(ctx, s, scan, statement, arguments...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// exec returns how many rows the statement returned or changed.
func (s *Store) exec(ctx context.Context, statement string, arguments ...any) (rows int64, err error) {
	err = s.together(ctx, step{s.qualify(statement), arguments, counting(&rows)})
	return rows, err
}

var (
	_ watchdog.TransactionalStore = (*Store)(nil)
	_ watchdog.FeedStore          = (*Store)(nil)
	_ watchdog.SpendStore         = (*Store)(nil)
	_ session.Store               = (*Store)(nil)
	_ session.Listener            = (*Store)(nil)
	_ session.Lister              = (*Store)(nil)
	_ session.BatchCanceller      = (*Store)(nil)
	_ session.Outbox              = (*Store)(nil)
)
