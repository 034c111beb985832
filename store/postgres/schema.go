package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// oldestServer is the oldest version that the store is made for.
const oldestServer = 130000

// schema has the tables.
//
// What is written often is in no index, and by HOT updates: a page has room for the next versions of rows that change
// with each renewal. The dead rows of the others lie where a search begins, so the tables are vacuumed when
// two rows in a hundred are dead and not twenty. Quiet_since and quiet_due are rounded up to microseconds, so that
// their index has the order of the pages of stalled sessions.
func schema() *storeflow.Schema {
	return &storeflow.Schema{
		Prefix: "SCHEMA.",
		Columns: map[string][]storeflow.Column{
			"watchdog_sessions": sessionColumns(),
		},
		Types: strings.NewReplacer("{bytes}", ` COLLATE pg_catalog."C"`, "{text}", "pg_catalog.text", "{integer}", "bigint",
			"{time}", "pg_catalog.timestamptz", "{flag}", "boolean", "{JSON}", "pg_catalog.json",
			"{lease}", `varchar(255) COLLATE pg_catalog."C" REFERENCES SCHEMA.watchdog_leases (id)`,
			"{cascade}", " ON DELETE CASCADE", "{payload}", "pg_catalog.json", "{due}", "pg_catalog.timestamptz"),
		Options: map[string]string{
			"watchdog_sessions":   " WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)",
			"watchdog_leases":     " WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)",
			"watchdog_lease_ends": " WITH (autovacuum_vacuum_scale_factor = 0.02)",
		},
		Foreign: ErrForeignTable,
		Index:   `CREATE INDEX IF NOT EXISTS %s ON SCHEMA.%s (%s)`,
		// That of leases also finds the rows which still name a lease when it is deleted.
		Indexes: []storeflow.Index{
			{"watchdog_sessions_silent", "watchdog_sessions", "silent, run_id", hasDefaultThreshold},
			{"watchdog_sessions_due", "watchdog_sessions", "due, run_id", hasOwnThreshold},
			{"watchdog_sessions_unreadable", "watchdog_sessions", "run_id", isUnreadable},
			{"watchdog_sessions_lease", "watchdog_sessions", "lease, run_id", "lease IS NOT NULL"},
			{"watchdog_sessions_quiet_since", "watchdog_sessions", "lease, quiet_since, run_id", "quiet_since IS NOT NULL"},
			{"watchdog_sessions_quiet_due", "watchdog_sessions", "lease, quiet_due, run_id", "quiet_due IS NOT NULL"},
			{"watchdog_sessions_created", "watchdog_sessions", "created_at DESC, run_id DESC"},
			{"watchdog_sessions_live", "watchdog_sessions", "created_at DESC, run_id DESC", "status {=} 'active'"},
			{"watchdog_sessions_parent", "watchdog_sessions", "parent, created_at DESC, run_id DESC", "parent {<>} ''"},
			{"watchdog_sessions_host", "watchdog_sessions", "host, created_at DESC, run_id DESC"},
			{"watchdog_sessions_start", "watchdog_sessions", "start_due, run_id", isToStart},
		},
		Others: []string{createParentIndex},
	}
}

func (s *Store) prepare(ctx context.Context) error {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	if s.readOnly {
		options.AccessMode = pgx.ReadOnly
	}
	return s.onConn(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			t := &transaction{Tx: tx, ctx: ctx, store: s}
			ready := t.migrate
			if s.readOnly {
				ready = t.checkReadable
			}
			return storeflow.InOrder(t.checkServer, ready)
		})
	})
}

// lock takes the advisory lock of the schema until the transaction ends.
func (t *transaction) lock() error {
	number := int64(hash("watchdog_schema " + t.store.schema)) //nolint:gosec // any number will do
	return t.Run("SELECT pg_catalog.pg_advisory_xact_lock($1)", number)
}

// checkServer checks the server's version and that it accepts writes. Behind a pooler it switches off named statements.
func (t *transaction) checkServer() error {
	var version int
	var readOnly bool
	var pid uint32
	err := t.Value(`SELECT pg_catalog.current_setting('server_version_num')::int,
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
		why, err := whyReadOnly(t.QueryRow(t.ctx, t.store.qualify(selectWhyReadOnly), t.store.unprepared(nil)...))
		return cmp.Or(err, errors.New("it is read-only: "+why))
	}
	return nil
}

// migrate runs the migrations that are missing. Several processes may migrate at once: each holds an advisory lock.
func (t *transaction) migrate() error {
	return storeflow.InOrder(t.ensureSchema, t.lock,
		func() error { return schema().Migrate(t) },
		func() error { return t.checkRights(writingRights) })
}

// checkReadable finds out whether the events can be read. It changes nothing. It does not look at the other tables, so
// that a command that reads one page is quick: the call that needs one of them says what is wrong with it.
func (t *transaction) checkReadable() error {
	return storeflow.InOrder(t.findSchema, func() error { return schema().CheckReadable(t) },
		func() error { return t.checkRights(readingRights) })
}

// The rights that a store needs.
const (
	writingRights = `('events', '{SELECT,INSERT}'), ('watchdog_sessions', '{SELECT,INSERT,UPDATE}'),
			('watchdog_leases', '{SELECT,INSERT,UPDATE,DELETE}'), ('watchdog_lease_ends', '{SELECT,INSERT,DELETE}')`
	readingRights = `('events', '{SELECT}'), ('watchdog_sessions', '{SELECT}'), ('watchdog_leases', '{SELECT}')`
)

// checkRights finds missing rights when the store is opened, not when its first event is lost.
func (t *transaction) checkRights(needed string) error {
	var missing string
	err := t.Value(`SELECT coalesce(pg_catalog.string_agg(pg_catalog.concat(p.privilege, ' on ', needed.name), ', '
			ORDER BY needed.name DESC, p.privilege), '') FROM (VALUES`+needed+`) AS needed (name, privileges)
		CROSS JOIN pg_catalog.unnest(needed.privileges::pg_catalog.text[]) AS p (privilege)
		JOIN pg_catalog.pg_class c ON c.relname {=} needed.name
		JOIN pg_catalog.pg_namespace n ON n.oid {=} c.relnamespace AND n.nspname {=} $1
		WHERE NOT pg_catalog.has_table_privilege(c.oid, p.privilege)`,
		[]any{t.store.schema}, &missing)
	if err == nil && missing != "" {
		err = fmt.Errorf("the role lacks rights: grant it %s", missing)
	}
	return err
}

// Run implements [storeflow.Database]. It runs a statement once, without a name.
func (t *transaction) Run(statement string, arguments ...any) error {
	_, err := t.Exec(t.ctx, t.store.qualify(statement), t.store.unprepared(arguments)...)
	return err
}

// Value runs a query of one row once, without a name.
func (t *transaction) Value(statement string, arguments []any, into ...any) error {
	return t.QueryRow(t.ctx, t.store.qualify(statement), t.store.unprepared(arguments)...).Scan(into...)
}

// warnOfLeftovers says what a version before left. It leaves out what the role may not read.
func (s *Store) warnOfLeftovers(ctx context.Context, log *slog.Logger) {
	var found []storeflow.Leftover
	_ = s.inTransaction(ctx, func(t *transaction) error {
		found = schema().Leftovers(t)
		return nil
	})
	for _, left := range found {
		log.Warn("an older version left rows that nothing reads any more",
			"database", s.address, "rows", left.Rows, "read", s.qualify(left.Read), "drop", s.qualify(left.Drop))
	}
}

// The queries use generated columns, which other writers of the table need not know: whether the row is readable,
// since when its run is silent, and when it exceeds a threshold of its own. The expression for due converts to UTC
// and back, because PostgreSQL generates a column only from an immutable sum, and only the sum of a time without a
// zone is one.
func sessionColumns() []storeflow.Column {
	return []storeflow.Column{
		{Name: "ended_at", Is: "{time}"},
		{Name: "readable", Is: `boolean GENERATED ALWAYS AS (status {=} ANY ('{active,cancelled,interrupted,finished}')
			AND threshold {>=} 0 AND attempt {>=} 0 AND resumes {>=} 0 AND ` + readableTimes + `) STORED`},
		{Name: "silent", Is: "{time} GENERATED ALWAYS AS (coalesce(last_event_at, created_at)) STORED"},
		{Name: "due", Is: `{time} GENERATED ALWAYS AS ((
			(coalesce(last_event_at, created_at) AT TIME ZONE 'UTC')
			{+} ((threshold {/} 1000) {*} {microsecond})) AT TIME ZONE 'UTC') STORED`},
	}
}

const readableTimes = `created_at {>=} '0001-01-01 00:00:00+00' AND created_at {<=} '9999-12-31 23:59:59.999999+00'
			AND coalesce(last_event_at, created_at) {>=} '0001-01-01 00:00:00+00'
			AND coalesce(last_event_at, created_at) {<=} '9999-12-31 23:59:59.999999+00'
			AND started_at {>=} '0001-01-01 00:00:00+00' AND started_at {<=} '9999-12-31 23:59:59.999999+00'`

// The conditions of the partial indexes. A query must repeat a condition word for word to use its index.
const (
	hasDefaultThreshold = `status {=} 'active' AND readable AND lease IS NULL AND threshold {=} 0`
	hasOwnThreshold     = `status {=} 'active' AND readable AND lease IS NULL AND threshold {>} 0`
	isUnreadable        = `status {=} 'active' AND NOT readable`
)

// temporary begins the names of the schemas of temporary tables: pg_temp is that of the connection, and pg_temp_3 its
// or another's. A table there vanishes with its connection, and no other connection finds it.
const temporary = "pg_temp"

func isTemporary(schema string) bool {
	return schema == temporary || strings.HasPrefix(schema, temporary+"_")
}

func (t *transaction) ensureSchema() error {
	if t.store.schema == "" {
		return t.findSchema()
	}
	var exists bool
	err := t.Value(`SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname {=} $1)`,
		[]any{t.store.schema}, &exists)
	if err != nil || exists {
		return err
	}
	return storeflow.InOrder(t.lock, func() error { // two at once fail without the lock, even with IF NOT EXISTS
		_, err := t.Exec(t.ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{t.store.schema}.Sanitize())
		return err
	})
}

func (t *transaction) findSchema() error {
	if t.store.schema != "" {
		return nil
	}
	var path string
	err := t.Value(`SELECT coalesce(pg_catalog.current_schema(), ''), pg_catalog.current_setting('search_path')`,
		nil, &t.store.schema, &path)
	switch {
	case err != nil:
		return err
	case t.store.schema == "":
		return errors.New("no schema of the connection's search_path exists: create one, or name one in Config.Schema")
	case isTemporary(t.store.schema):
		return fmt.Errorf("the search_path %s begins with %s, whose tables vanish with their connection: "+
			"name another schema first, or one in Config.Schema", path, temporary)
	}
	return nil
}
