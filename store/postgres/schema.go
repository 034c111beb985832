package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrNewerSchema is returned by [Open] and [New] for a database that a newer version of this package has migrated.
var ErrNewerSchema = errors.New(
	"the database was written by a newer version of this program, and this one does not know its schema: use the newer one")

// oldestServer is the first version that has xid8, which tells when a session ended.
const oldestServer = 130000

// A migration takes the schema from one version to the next. The first also takes over a table that is there already, and every one must bear being run where its work is
// done, because a table that somebody has dropped is made again from the beginning.
var migrations = []func(*transaction) error{createEvents, createSessions}

// A transaction is one in which the schema is looked at and made.
type transaction struct {
	pgx.Tx
	ctx   context.Context
	store *Store
}

// migrate brings the schema to the newest version. Several processes may do this at once: each looks and writes under a lock, which ends with its transaction.
func (s *Store) migrate(ctx context.Context) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		t := &transaction{Tx: tx, ctx: ctx, store: s}
		if err := t.checkServer(); err != nil {
			return err
		}
		if err := t.ensureSchema(); err != nil {
			return err
		}
		if err := t.exec("SELECT pg_advisory_xact_lock($1)", advisoryLock(s.schema)); err != nil {
			return err
		}
		return t.migrate()
	})
}

// lockOf is the advisory lock for a schema.
func advisoryLock(schema string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("watchdog_schema " + schema)) // never fails
	return int64(h.Sum64())                             //nolint:gosec // any number will do
}

func (t *transaction) checkServer() error {
	var version int
	var readOnly bool
	var pid uint32
	err := t.values(`SELECT current_setting('server_version_num')::int, current_setting('transaction_read_only')::bool, pg_backend_pid()`,
		nil, &version, &readOnly, &pid)
	if t.Conn().PgConn().PID() != pid && t.store.mode == pgx.QueryExecModeCacheStatement {
		t.store.mode = pgx.QueryExecModeCacheDescribe // that is not the server, and may give its connections to others
	}
	switch {
	case err != nil:
		return err
	case version < oldestServer:
		return fmt.Errorf("the server is PostgreSQL %d: use version %d or later", version/10000, oldestServer/10000)
	case readOnly:
		return errors.New("it is read-only, it may be a standby: name the primary, or all hosts with target_session_attrs=read-write")
	}
	return nil
}

// findSchema finds out which schema is ours, and makes the one that is asked for.
func (t *transaction) ensureSchema() error {
	if t.store.schema == "" {
		err := t.values(`SELECT coalesce(current_schema(), '')`, nil, &t.store.schema)
		if err == nil && t.store.schema == "" {
			err = errors.New("no schema of the connection's search_path is there: create one, or name one in Config.Schema")
		}
		return err
	}
	var there bool
	err := t.values(`SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, []any{t.store.schema}, &there)
	if err != nil || there {
		return err
	}
	// Two that create one schema at once are one too many, IF NOT EXISTS or not.
	if err := t.exec("SELECT pg_advisory_xact_lock($1)", advisoryLock(t.store.schema)); err != nil {
		return err
	}
	_, err = t.Exec(t.ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{t.store.schema}.Sanitize())
	return err
}

// migrate takes the steps that are to be taken.
func (t *transaction) migrate() error {
	version, err := t.schemaVersion()
	if err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("%w (its version is %d, the newest known here %d)", ErrNewerSchema, version, len(migrations))
	}
	complete, err := t.checkTables()
	if err != nil {
		return err
	}
	if !complete {
		version = 0
	}
	for ; version < len(migrations); version++ {
		if err := migrations[version](t); err != nil {
			return err
		}
		if err := t.storeVersion(version + 1); err != nil {
			return err
		}
	}
	return t.checkRights()
}

// schemaVersion returns 0 for a schema that has nothing of ours.
func (t *transaction) schemaVersion() (version int, err error) {
	there, err := t.relation("watchdog_schema")
	if err != nil || there == "" {
		return 0, err
	}
	err = t.values(`SELECT coalesce(max(version), 0) FROM SCHEMA.watchdog_schema`, nil, &version)
	return version, err
}

func (t *transaction) storeVersion(version int) error {
	if err := t.exec(`CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_schema (version integer PRIMARY KEY)`); err != nil {
		return err
	}
	return t.exec(`INSERT INTO SCHEMA.watchdog_schema (version) VALUES ($1) ON CONFLICT DO NOTHING`, version)
}

// checkRights tells when a store is opened, and not when its first event is lost, what the role may not do.
func (t *transaction) checkRights() error {
	var missing string
	err := t.values(`
		SELECT coalesce(string_agg(needed.privilege || ' on ' || needed.name, ', '), '')
		FROM (VALUES ('events', 'SELECT'), ('events', 'INSERT'),
			('watchdog_sessions', 'SELECT'), ('watchdog_sessions', 'INSERT'), ('watchdog_sessions', 'UPDATE')) AS needed (name, privilege)
		JOIN pg_class c ON c.relname = needed.name JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1
		WHERE NOT has_table_privilege(c.oid, needed.privilege)`, []any{t.store.schema}, &missing)
	if err == nil && missing != "" {
		err = fmt.Errorf("the role lacks rights: grant it %s", missing)
	}
	return err
}

// createEvents is version 1.
func createEvents(t *transaction) error {
	if err := t.exec(`
		CREATE TABLE IF NOT EXISTS SCHEMA.events (
			id varchar(36) PRIMARY KEY,
			aggregate_type varchar(100) NOT NULL,
			aggregate_id varchar(255) NOT NULL,
			event_type varchar(200) NOT NULL,
			payload json NOT NULL,
			"timestamp" timestamptz NOT NULL,
			consensus_id varchar(36)
		)`); err != nil {
		return err
	}
	if err := t.createIndex("watchdog_events_aggregate", "aggregate_type", "aggregate_id", "timestamp"); err != nil {
		return err
	}
	return t.createIndex("watchdog_events_type", "event_type")
}

// createIndex makes an index unless the table has one that begins with the same columns.
func (t *transaction) createIndex(name string, columns ...string) error {
	indexes, err := t.indexes()
	if err != nil {
		return err
	}
	for _, index := range indexes {
		if index.leads(columns) {
			return nil
		}
	}
	return t.exec(fmt.Sprintf(`CREATE INDEX IF NOT EXISTS %s ON SCHEMA.events ("%s")`, name, strings.Join(columns, `", "`)))
}

// exec and values run a statement that runs once, prepared under no name.
func (t *transaction) exec(statement string, arguments ...any) error {
	_, err := t.Exec(t.ctx, t.store.qualify(statement), t.store.unprepared(arguments)...)
	return err
}

func (t *transaction) values(statement string, arguments []any, into ...any) error {
	return t.QueryRow(t.ctx, t.store.qualify(statement), t.store.unprepared(arguments)...).Scan(into...)
}

// once is the mode for what need not be remembered.
func (s *Store) unprepared(arguments []any) []any {
	return append([]any{pgx.QueryExecModeExec}, arguments...)
}
