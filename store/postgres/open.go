package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Config says where in a database the tables are. The zero value is ready to use.
type Config struct {
	// Schema is the schema of the tables. Open and New create it if it does not exist. Stores in different schemas
	// are independent of each other. Empty means the first schema of the connection's search_path.
	Schema string
	// ReadOnly opens the database to read it: Open and New create and migrate nothing, each transaction is read-only, and
	// every call that writes returns [ErrReadOnly]. It works with a standby, and for a role that may only SELECT. In a
	// schema of an older version the events can be read, and a call that needs more returns an error that says so. False
	// reads and writes.
	ReadOnly bool
	// Logger gets what Open and New find that is no error, such as a table of the host's that is too narrow for layers,
	// or what a version before kept for somebody in tables that this one neither reads nor drops. Nil means
	// [slog.Default].
	Logger *slog.Logger
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
		pool: pool, schema: cfg.Schema, readOnly: cfg.ReadOnly,
		settings: settings, beginQuery: beginLimited,
		leases: leaseConn{turn: make(chan struct{}, 1)}, spares: make(chan struct{}, maxSpares),
		mode: modeOf(config.ConnConfig), poolMode: config.ConnConfig.DefaultQueryExecMode}
	if s.readOnly {
		s.settings, s.beginQuery = settingsReadOnly, beginReadOnly
	}
	s.closing, s.close = context.WithCancel(context.Background())
	s.address, s.severalHosts = addressOf(config)
	if problem := schemaNameProblem(cfg.Schema); problem != "" {
		return nil, fmt.Errorf("open event database %s: the schema name %q %s", s.address, cfg.Schema, problem)
	}
	if err := s.do(ctx, "open", s.prepare); err != nil {
		return nil, err
	}
	if !s.readOnly {
		s.warnOfNarrowIDs(ctx, cmp.Or(cfg.Logger, slog.Default()))
		s.warnOfLeftovers(ctx, cmp.Or(cfg.Logger, slog.Default()))
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
