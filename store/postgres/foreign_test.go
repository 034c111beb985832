package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/postgres"
)

// foreignTable is a host's events table, with other types, another order and columns of its own.
const foreignTable = `CREATE TABLE events (
	seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id text NOT NULL UNIQUE,
	event_type text NOT NULL,
	tenant text NOT NULL DEFAULT 'main',
	aggregate_type text NOT NULL,
	aggregate_id text NOT NULL,
	payload json,
	"timestamp" timestamptz,
	consensus_id text,
	note text
)`

func TestForeignTable(t *testing.T) {
	t.Parallel()
	t.Run("is used in place and its other columns are left alone", func(t *testing.T) {
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		mustExec(t, pool, tableWith("tenant text NOT NULL DEFAULT 'main'", "note text"),
			`INSERT INTO events VALUES ('old', 'runtime_control', 'run-1', 'x', '{"a":1}', '2020-01-01', NULL, 'other', 'kept')`)
		s := openAt(t, dsn, postgres.Config{})
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		assert.Equal(t, []string{"old", "event-1"}, read(t, s))
		rows := texts(t, pool, `SELECT concat_ws(' ', id, tenant, note) FROM events ORDER BY id`)
		assert.Equal(t, []string{"event-1 main", "old other kept"}, rows)
	})
	for name, test := range map[string]struct{ table, names string }{
		"that lacks columns": {
			`CREATE TABLE events (id text PRIMARY KEY, event_type text, payload json, ts text)`,
			"aggregate_type aggregate_id timestamp consensus_id",
		},
		"that needs values for other columns": {
			tableWith("tenant text NOT NULL", "seq int NOT NULL", "note text"), "tenant seq",
		},
		"whose IDs are not unique": {strings.Replace(tableWith(), "PRIMARY KEY", "", 1), "id"},
		"whose IDs are unique only with another column": {
			strings.Replace(tableWith("UNIQUE (id, event_type)"), "PRIMARY KEY", "", 1), "id",
		},
		"whose unique IDs are deferrable": {
			strings.Replace(tableWith("UNIQUE (id) DEFERRABLE"), "PRIMARY KEY", "", 1), "id",
		},
		"whose IDs are UUIDs": {
			strings.Replace(tableWith(), "id varchar(36)", "id uuid", 1), "uuid",
		},
		"whose run IDs are padded": {
			strings.Replace(tableWith(), "aggregate_id varchar(255)", "aggregate_id char(36)", 1), "aggregate_id",
		},
		"whose run IDs ignore case": {
			`CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false); ` +
				strings.Replace(tableWith(), "aggregate_id varchar(255)", "aggregate_id text COLLATE folding", 1), "aggregate_id",
		},
		"whose times have no zone":    {strings.Replace(tableWith(), "timestamptz", "timestamp", 1), "timestamptz"},
		"whose payload is normalized": {strings.Replace(tableWith(), "json", "jsonb", 1), "jsonb"},
		"whose payload is computed": {
			strings.Replace(tableWith(), "payload json", "payload json GENERATED ALWAYS AS ('{}'::json) STORED", 1), "payload",
		},
		"that needs a consensus ID": {
			strings.Replace(tableWith(), "consensus_id text", "consensus_id text NOT NULL DEFAULT ''", 1), "consensus_id",
		},
		"that is a view": {`CREATE VIEW events AS SELECT 1 AS id`, "events"},
	} {
		t.Run(name+" is refused, named and left as it is", func(t *testing.T) { refusesForeign(t, test.table, test.names) })
	}
	t.Run("for sessions of the host is refused as well", func(t *testing.T) {
		refusesForeign(t, `CREATE TABLE watchdog_sessions (run_id text PRIMARY KEY, status text)`,
			"watchdog_sessions lacks parent")
		for _, table := range []string{"watchdog_leases", "watchdog_outbox"} {
			refusesForeign(t, tableWith()+"; CREATE TABLE "+table+" (id text)", table+" lacks")
		}
	})
}

const everything = `SELECT concat_ws(' ', n.nspname, c.relname, c.relkind)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1`

// refusesForeign checks that Open and New fail for a database with this table, name the columns and change nothing.
func refusesForeign(t *testing.T, table, names string) {
	t.Helper()
	dsn := newDSN(t)
	pool := hostPool(t, dsn)
	mustExec(t, pool, table)
	before := texts(t, pool, everything)
	_, err := postgres.New(t.Context(), pool, postgres.Config{})
	_, openErr := postgres.Open(t.Context(), dsn, postgres.Config{})
	for _, err := range []error{err, openErr} {
		require.ErrorIs(t, err, postgres.ErrForeignTable)
		for name := range strings.FieldsSeq(names) {
			require.ErrorContains(t, err, name)
		}
	}
	assert.Equal(t, before, texts(t, pool, everything))
}

func TestForeignIndexes(t *testing.T) {
	t.Parallel()
	t.Run("are used if they are equivalent", func(t *testing.T) {
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		mustExec(t, pool, tableWith(),
			`CREATE INDEX theirs ON events (aggregate_type, aggregate_id, "timestamp", id)`,
			`CREATE INDEX types ON events (event_type, "timestamp")`)
		openAt(t, dsn, postgres.Config{})
		assert.Equal(t, []string{"events_pkey", "theirs", "types", "watchdog_events_parent"}, indexes(t, dsn))
	})
	t.Run("are not used if they are not equivalent", func(t *testing.T) {
		dsn := newDSN(t)
		mustExec(t, hostPool(t, dsn), tableWith(),
			`CREATE INDEX partial ON events (aggregate_type, aggregate_id, "timestamp") WHERE event_type = 'x'`,
			`CREATE INDEX hashed ON events USING hash (event_type)`,
			`CREATE INDEX ordered ON events (event_type COLLATE "POSIX")`,
			`CREATE INDEX swapped ON events (aggregate_id, aggregate_type, "timestamp")`,
			`CREATE INDEX computed ON events (lower(event_type))`)
		openAt(t, dsn, postgres.Config{})
		want := []string{
			"computed", "events_pkey", "hashed", "ordered", "partial", "swapped",
			"watchdog_events_aggregate", "watchdog_events_parent", "watchdog_events_type",
		}
		assert.Equal(t, want, indexes(t, dsn))
	})
}

func indexes(t *testing.T, dsn string) []string {
	t.Helper()
	all := texts(t, hostPool(t, dsn), `SELECT indexname FROM pg_indexes WHERE tablename = 'events'`)
	slices.Sort(all)
	return all
}

// tableWith returns a table with our columns and others.
func tableWith(more ...string) string {
	return "CREATE TABLE events (" + strings.Join(append([]string{
		"id varchar(36) PRIMARY KEY", "aggregate_type text", "aggregate_id varchar(255)", "event_type text",
		"payload json", `"timestamp" timestamptz`, "consensus_id text",
	}, more...), ", ") + ")"
}
