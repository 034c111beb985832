package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// oldestServer is the first version with xid8, the type of the column ended.
const oldestServer = 130000

// schema is what each version makes. It must allow being made again, because a table that somebody has dropped is
// created again. An alert is a notice of no event.
//
// What is written often is in no index, and by HOT updates: a page has room for the next versions of rows that change
// with each renewal or slice. The dead rows of the others lie where a search begins, so the tables are vacuumed when
// two rows in a hundred are dead and not twenty. Quiet_since and quiet_due are rounded up to microseconds, so that
// their index has the order of the pages of stalled sessions.
var schema = storeflow.Schema{
	Newest: 7,
	Parts: append(slices.Clone(storeflow.Parts),
		storeflow.Part{Version: 2, Table: "watchdog_sessions", Columns: sessionColumns},
		storeflow.Part{Version: 3, Table: "watchdog_outbox", Columns: outboxColumns},
		storeflow.Part{Version: 5, Table: "watchdog_outbox", Added: []storeflow.Column{
			{Name: "alert", Is: "boolean NOT NULL DEFAULT false"},
		}},
	),
	Prefix: "SCHEMA.",
	Types: strings.NewReplacer("{bytes}", ` COLLATE pg_catalog."C"`, "{text}", "pg_catalog.text", "{integer}", "bigint",
		"{time}", "pg_catalog.timestamptz", "{flag}", "boolean", "{JSON}", "pg_catalog.json",
		"{lease}", `varchar(255) COLLATE pg_catalog."C" REFERENCES SCHEMA.watchdog_leases (id)`,
		"{cascade}", " ON DELETE CASCADE", "{before}", "'-infinity'", "{payload}", "pg_catalog.json",
		"{due}", "pg_catalog.timestamptz"),
	Options: map[string]string{
		"watchdog_sessions":   " WITH (autovacuum_vacuum_scale_factor = 0.02)",
		"watchdog_leases":     " WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)",
		"watchdog_spend":      " WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)",
		"watchdog_lease_ends": " WITH (autovacuum_vacuum_scale_factor = 0.02)",
	},
	// Who deletes a window of watchdog_spend finds its slices by their index.
	Indexes: map[int][]string{
		2: sessionIndexes,
		3: leaseIndexes,
		4: {`CREATE INDEX IF NOT EXISTS watchdog_slices_window ON SCHEMA.watchdog_slices (scope, window_name)`},
		5: outboxIndexes,
		7: {`CREATE INDEX IF NOT EXISTS watchdog_sessions_start
			ON SCHEMA.watchdog_sessions (start_due, run_id) WHERE ` + isToStart},
	},
	EventIndex: func(name, columns string) string {
		return `CREATE INDEX IF NOT EXISTS ` + name + ` ON SCHEMA.events (` + columns + `)`
	},
}

// oldestReader is the oldest version of a program that can use a database of the newest one.
const oldestReader = 3

// A transaction checks and migrates the schema.
type transaction struct {
	pgx.Tx
	ctx   context.Context
	store *Store
}

// migrate brings the schema to the newest version. Several processes may migrate at once: each holds an advisory lock
// until its transaction ends.
func (s *Store) migrate(ctx context.Context) error {
	return s.onConn(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			t := &transaction{Tx: tx, ctx: ctx, store: s}
			return t.run()
		})
	})
}

func (t *transaction) run() error {
	if err := t.checkServer(); err != nil {
		return err
	}
	if err := t.ensureSchema(); err != nil {
		return err
	}
	if err := t.exec("SELECT pg_catalog.pg_advisory_xact_lock($1)", advisoryLock(t.store.schema)); err != nil {
		return err
	}
	return t.migrate()
}

// advisoryLock returns the number of the advisory lock for a schema.
func advisoryLock(schema string) int64 {
	return int64(hash("watchdog_schema " + schema)) //nolint:gosec // any number will do
}

// checkServer checks the server's version and that it accepts writes. Behind a pooler it switches off named statements.
func (t *transaction) checkServer() error {
	var version int
	var readOnly bool
	var pid uint32
	err := t.values(`
		SELECT pg_catalog.current_setting('server_version_num')::int,
			pg_catalog.current_setting('transaction_read_only')::boolean, pg_catalog.pg_backend_pid()`,
		nil, &version, &readOnly, &pid)
	if t.Conn().PgConn().PID() != pid && t.store.mode == pgx.QueryExecModeCacheStatement {
		t.store.mode = pgx.QueryExecModeCacheDescribe // a pooler, which may give its server connections to other clients
	}
	switch {
	case err != nil:
		return err
	case version < oldestServer:
		return fmt.Errorf("the server is PostgreSQL %d: use version %d or later", version/10000, oldestServer/10000)
	case readOnly && !t.store.readOnly:
		return t.readOnlyError()
	}
	return nil
}

func (t *transaction) readOnlyError() error {
	var standby bool
	var setBy string
	if err := t.values(selectWhyReadOnly, nil, &standby, &setBy); err != nil {
		return err
	}
	return errors.New("it is read-only: " + whyReadOnly(standby, setBy))
}

// findSchema finds the schema of the tables, if the host named none.
func (t *transaction) findSchema() error {
	if t.store.schema != "" {
		return nil
	}
	if err := t.refuseTemporary(); err != nil {
		return err
	}
	err := t.values(`SELECT coalesce(pg_catalog.current_schema(), '')`, nil, &t.store.schema)
	if err == nil && t.store.schema == "" {
		err = errors.New("no schema of the connection's search_path exists: create one, or name one in Config.Schema")
	}
	return err
}

// refuseTemporary refuses a search_path whose first schema that exists is that of the temporary tables. It does not ask
// the server for the first schema, because the answer would create that of the temporary tables.
func (t *transaction) refuseTemporary() error {
	var path, role string
	err := t.values(`SELECT pg_catalog.current_setting('search_path'), current_user::pg_catalog.text`, nil, &path, &role)
	if err != nil {
		return err
	}
	var before []string
	for _, schema := range schemasOf(path) {
		switch {
		case isTemporary(schema):
			return t.refuseUnlessLater(path, before)
		case schema == "$user":
			schema = role
		}
		before = append(before, schema)
	}
	return nil
}

// refuseUnlessLater refuses a search_path if none of the schemas before that of the temporary tables can be used.
func (t *transaction) refuseUnlessLater(path string, before []string) error {
	var usable bool
	err := t.values(`
		SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname {=} ANY ($1::pg_catalog.name[])
			AND pg_catalog.has_schema_privilege(oid, 'USAGE'))`, []any{before}, &usable)
	if err == nil && !usable {
		err = fmt.Errorf("the search_path %s begins with %s, whose tables vanish with their connection: "+
			"name another schema first, or one in Config.Schema", path, temporary)
	}
	return err
}

// ensureSchema finds the schema of the tables, and creates the one that the host named.
func (t *transaction) ensureSchema() error {
	if t.store.schema == "" {
		return t.findSchema()
	}
	var exists bool
	err := t.values(`SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname {=} $1)`,
		[]any{t.store.schema}, &exists)
	if err != nil || exists {
		return err
	}
	// If two create one schema at once, one of them fails, even with IF NOT EXISTS.
	if err := t.exec("SELECT pg_catalog.pg_advisory_xact_lock($1)", advisoryLock(t.store.schema)); err != nil {
		return err
	}
	_, err = t.Exec(t.ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{t.store.schema}.Sanitize())
	return err
}

// migrate runs the migrations that are missing.
func (t *transaction) migrate() error {
	d := t.database()
	version, err := schema.Version(d)
	if err != nil {
		return err
	}
	if version, err = schema.Complete(version, d); err != nil {
		return err
	}
	for ; version < schema.Newest; version++ {
		if err := t.makeVersion(version+1, d); err != nil {
			return err
		}
		if err := t.storeVersion(version + 1); err != nil {
			return err
		}
	}
	return t.checkRights(writingRights)
}

// checkSchema finds out whether the events can be read. It changes nothing. It does not look at the other tables, so
// that a command that reads one page is quick: the call that needs one of them says what is wrong with it.
func (s *Store) checkSchema(ctx context.Context) error {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}
	return s.onConn(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			return (&transaction{Tx: tx, ctx: ctx, store: s}).check()
		})
	})
}

func (t *transaction) check() error {
	if err := t.checkServer(); err != nil {
		return err
	}
	if err := t.findSchema(); err != nil {
		return err
	}
	d := t.database()
	if _, err := schema.Version(d); err != nil {
		return err
	}
	exist, err := d.HasEvents()
	switch {
	case err != nil:
		return err
	case !exist:
		return storerows.ErrNoTables
	}
	return t.checkRights(readingRights)
}

// makeVersion makes what a version has. Adding a column that may be NULL takes a moment, however many rows there are,
// if no transaction uses the table: it fails, and does not wait with everybody behind it, if one does for long.
func (t *transaction) makeVersion(version int, d storeflow.Database) error {
	if version == 3 {
		if err := t.exec(createParentIndex); err != nil {
			return fmt.Errorf("create the index of layers: %w", err)
		}
	}
	if version >= 3 {
		if err := t.exec(limitLocks); err != nil {
			return err
		}
	}
	return schema.Make(version, d)
}

// database is what the schema needs of the transaction.
func (t *transaction) database() storeflow.Database {
	return storeflow.Database{
		Exec: t.exec, Values: t.values, Names: t.columnNames, Events: t.describeEvents, Indexes: t.indexes,
		Add: func(table, column, is string) error {
			return t.exec("ALTER TABLE SCHEMA." + table + " ADD COLUMN IF NOT EXISTS " + column + " " + is)
		},
		Foreign: ErrForeignTable,
		Lacking: func(columns []string) string { return "lacks " + strings.Join(columns, ", ") },
	}
}

// storeVersion notes that the tables have a version, and from which one on a program can use them: those before version
// 3 do not look at oldest_reader.
func (t *transaction) storeVersion(version int) error {
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_schema (version integer PRIMARY KEY)`,
		`ALTER TABLE SCHEMA.watchdog_schema ADD COLUMN IF NOT EXISTS oldest_reader integer`,
	} {
		if err := t.exec(statement); err != nil {
			return err
		}
	}
	return t.exec(`INSERT INTO SCHEMA.watchdog_schema AS v (version, oldest_reader) VALUES ($1, $2)
		ON CONFLICT (version) DO UPDATE SET oldest_reader = coalesce(v.oldest_reader, excluded.oldest_reader)`,
		version, min(version, oldestReader))
}

// The rights that a store needs.
const (
	writingRights = `
			('events', 'SELECT'), ('events', 'INSERT'),
			('watchdog_sessions', 'SELECT'), ('watchdog_sessions', 'INSERT'), ('watchdog_sessions', 'UPDATE'),
			('watchdog_leases', 'SELECT'), ('watchdog_leases', 'INSERT'), ('watchdog_leases', 'UPDATE'),
			('watchdog_leases', 'DELETE'),
			('watchdog_lease_ends', 'SELECT'), ('watchdog_lease_ends', 'INSERT'), ('watchdog_lease_ends', 'DELETE'),
			('watchdog_spend', 'SELECT'), ('watchdog_spend', 'INSERT'), ('watchdog_spend', 'UPDATE'),
			('watchdog_slices', 'SELECT'), ('watchdog_slices', 'INSERT'), ('watchdog_slices', 'UPDATE'),
			(CASE WHEN $2::boolean THEN 'watchdog_outbox' END, 'INSERT')`
	readingRights = `
			('events', 'SELECT'), ('watchdog_sessions', 'SELECT'), ('watchdog_leases', 'SELECT'),
			(CASE WHEN $2::boolean THEN NULL END, 'SELECT')`
)

// checkRights finds missing rights when the store is opened, not when its first event is lost.
func (t *transaction) checkRights(needed string) error {
	var missing string
	err := t.values(`
		SELECT coalesce(pg_catalog.string_agg(pg_catalog.concat(needed.privilege, ' on ', needed.name), ', '
			ORDER BY needed.name DESC, needed.privilege), '')
		FROM (VALUES`+needed+`
		) AS needed (name, privilege)
		JOIN pg_catalog.pg_class c ON c.relname {=} needed.name
		JOIN pg_catalog.pg_namespace n ON n.oid {=} c.relnamespace AND n.nspname {=} $1
		WHERE NOT pg_catalog.has_table_privilege(c.oid, needed.privilege)`,
		[]any{t.store.schema, t.store.outbox}, &missing)
	if err == nil && missing != "" {
		err = fmt.Errorf("the role lacks rights: grant it %s", missing)
	}
	return err
}

// exec runs a statement once, without a name.
func (t *transaction) exec(statement string, arguments ...any) error {
	_, err := t.Exec(t.ctx, t.store.qualify(statement), t.store.unprepared(arguments)...)
	return err
}

// values runs a query of one row once, without a name.
func (t *transaction) values(statement string, arguments []any, into ...any) error {
	return t.QueryRow(t.ctx, t.store.qualify(statement), t.store.unprepared(arguments)...).Scan(into...)
}
