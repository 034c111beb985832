package postgres_test

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestNewSchema(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	openAt(t, dsn, postgres.Config{})
	pool := hostPool(t, dsn)
	columns := texts(t, pool, `SELECT
			concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END)
		FROM pg_attribute a WHERE a.attrelid = 'events'::regclass AND a.attnum > 0 ORDER BY a.attnum`)
	require.Equal(t, []string{
		"id character varying(36) NOT NULL", "aggregate_type character varying(100) NOT NULL",
		"aggregate_id character varying(255) NOT NULL", "event_type character varying(200) NOT NULL",
		"payload json NOT NULL", "timestamp timestamp with time zone NOT NULL", "consensus_id character varying(36)",
	}, columns)
	require.Equal(t, []string{
		"events_pkey", "watchdog_events_aggregate", "watchdog_events_parent", "watchdog_events_type",
	}, indexes(t, dsn))
	require.Equal(t, []string{"8 8"}, texts(t, pool, "SELECT version || ' ' || oldest_reader FROM watchdog_schema"))
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	pool := hostPool(t, dsn)
	mustExec(t, pool, `CREATE SCHEMA "search path"`)
	var stores []*postgres.Store
	for _, schema := range []string{"", "a", "A", `o'brien "x"; DROP SCHEMA a CASCADE; --`, "日本語", "SCHEMA.events",
		strings.Repeat("s", 63)} {
		stores = append(stores, openAt(t, dsn, postgres.Config{Schema: schema}))
	}
	stores = append(stores, openAt(t, dsn+"&search_path="+"%22search%20path%22", postgres.Config{}))
	for i, s := range stores {
		require.NoError(t, s.Append(t.Context(), numbered(int64(i))))
		judged := attach(t, s, "run-1")
		require.Equal(t, 1, judged.Attempt)
		begin(t, s, lease1)
		_, err := s.Freshen(t.Context(), lease1, []session.Freshness{{RunID: "run-1", Attempt: 1}})
		require.NoError(t, err)
		g, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
		require.NoError(t, err)
		require.EqualValues(t, 5, g.Charged.Requests, "each schema has its own scopes")
	}
	for i, s := range stores {
		require.Equal(t, []string{fmt.Sprint("event-", i)}, read(t, s))
	}
	t.Run("are an error if none of them is in the search path", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), dsn+"&search_path=nowhere", postgres.Config{})
		require.ErrorContains(t, err, "Config.Schema")
	})
}

// Several stores of one process may create one schema at once.
func TestStoresOpenAtOnce(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{"that exists": "public", "that does not exist": "fresh"} {
		t.Run(name, func(t *testing.T) {
			dsn := newDSN(t)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					s, err := postgres.Open(t.Context(), dsn, postgres.Config{Schema: schema})
					if assert.NoError(t, err) {
						assert.NoError(t, s.Close())
					}
				})
			}
			all.Wait()
			inSchema := "SELECT version::text FROM " + schema + ".watchdog_schema ORDER BY version"
			require.Equal(t, []string{"8"}, texts(t, hostPool(t, dsn), inSchema))
		})
	}
}

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
		require.Equal(t, []string{"old", "event-1"}, read(t, s))
		rows := texts(t, pool, `SELECT concat_ws(' ', id, tenant, note) FROM events ORDER BY id`)
		require.Equal(t, []string{"event-1 main", "old other kept"}, rows)
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
	require.Equal(t, before, texts(t, pool, everything))
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

// shadows creates a schema with a function, an operator, a type, a collation and a table by the name of each in
// pg_catalog that a statement could use. All of them fail.
const shadows = `
CREATE SCHEMA evil;
DO $do$
DECLARE one record;
BEGIN
	FOR one IN
		SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments, p.prorettype::regtype::text AS result,
			CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END AS setof
		FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a')
			AND NOT p.prorettype::regtype::text = ANY (ARRAY['internal', 'trigger', 'event_trigger', 'cstring', 'record'])
			AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) AS a (type)
				WHERE a.type::regtype::text IN ('internal', 'cstring', '"any"'))
			AND p.proargmodes IS NULL
	LOOP
		BEGIN
			EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s%s LANGUAGE plpgsql AS %L', one.proname,
				replace(one.arguments, ' ORDER BY ', ', '), one.setof, one.result,
				format('BEGIN RAISE EXCEPTION ''evil function %s''; END', one.proname));
		EXCEPTION WHEN OTHERS THEN
			NULL; -- a function with such types cannot be created
		END;
	END LOOP;
	FOR one IN
		SELECT o.oprname, l.typname AS l, r.typname AS r
		FROM pg_operator o JOIN pg_type l ON l.oid = o.oprleft JOIN pg_type r ON r.oid = o.oprright
		WHERE o.oprnamespace = 'pg_catalog'::regnamespace
		UNION SELECT name, 'varchar', type
		FROM unnest(ARRAY['=', '<>', '<', '<=', '>', '>=']) AS name, unnest(ARRAY['varchar', 'text']) AS type
	LOOP
		EXECUTE format('CREATE OR REPLACE FUNCTION evil.evil_operator(pg_catalog.%I, pg_catalog.%I) RETURNS boolean
			LANGUAGE plpgsql AS %L', one.l, one.r, 'BEGIN RAISE EXCEPTION ''evil operator''; END');
		EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = pg_catalog.%I, RIGHTARG = pg_catalog.%I,
			FUNCTION = evil.evil_operator)', one.oprname, one.l, one.r);
	END LOOP;
	FOR one IN
		SELECT typname FROM unnest(ARRAY['text', 'json', 'timestamptz', 'xid8', 'xid', 'int8', 'bool', 'name']) AS typname
	LOOP
		EXECUTE format('CREATE TYPE evil.%I AS ENUM ()', one.typname);
	END LOOP;
	FOR one IN
		SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v')
	LOOP
		EXECUTE format('CREATE TABLE evil.%I ()', one.relname);
	END LOOP;
END $do$;
CREATE FUNCTION evil.unnest(text[]) RETURNS SETOF text LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'evil unnest'; END $$;
CREATE FUNCTION evil.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'evil unnest'; END $$;
CREATE FUNCTION evil.pg_notify(text, varchar) RETURNS void LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'evil pg_notify'; END $$;
CREATE COLLATION evil."C" (provider = icu, locale = 'und');
`

var database = regexp.MustCompile(`database test_\d+`)

// A store does what it should even if a schema in front of pg_catalog has all that pg_catalog has.
func TestSearchPath(t *testing.T) {
	if racing.Enabled {
		t.Skip("runs in the plain tests only: it takes long, and runs the same Go code as TestEvents and others")
	}
	t.Parallel()
	dsn := server(t).DSN(server(t).Database(t)) // to drop so many functions takes longer than to create a database
	mustExec(t, hostPool(t, dsn), shadows)
	evil := dsn + "&search_path=evil,pg_catalog,public"
	_, err := hostPool(t, evil).Exec(t.Context(), "SELECT 1 FROM (VALUES ('a'::varchar)) AS v (a) WHERE a = 'a'")
	require.ErrorContains(t, err, "evil operator", "the test has to find an operator by the search_path")
	s := hurried(openSchema(t, evil, "public"), hostPool(t, dsn))
	t.Run("for each call", func(t *testing.T) {
		calls := tableCalls(t.Context(), s.Store)
		plain := tableCalls(t.Context(), openAt(t, newDSN(t), withOutbox))
		says := func(err error) string { return database.ReplaceAllString(fmt.Sprint(err), "") }
		names := slices.Sorted(maps.Keys(calls))
		for _, name := range slices.Concat(names, names) { // the second time there are rows
			require.Equal(t, says(plain[name]()), says(calls[name]()), name)
		}
	})
	t.Run("for events", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) watchdog.EventStore { return s.emptied(t) })
	})
	t.Run("for sessions", func(t *testing.T) {
		racing.LongOnly(t)
		sessiontest.Run(t, func(t *testing.T) session.Store { return s.emptied(t) })
	})
	t.Run("for shared limits", func(t *testing.T) {
		racing.LongOnly(t)
		storetest.RunSpend(t, func(t *testing.T) watchdog.SpendStore { return s.emptied(t) })
	})
	t.Run("for its schema, in a host's table", func(t *testing.T) {
		mustExec(t, s.pool, "CREATE SCHEMA host", "SET search_path = host; "+foreignTable+"; RESET search_path")
		require.NotNil(t, openSchema(t, evil, "host"))
		require.NotNil(t, openSchema(t, evil, "new"))
	})
	t.Run("and its schema is the first of the search_path", func(t *testing.T) {
		first := openSchema(t, evil, "")
		require.NoError(t, first.Append(t.Context(), numbered(1)))
		require.Equal(t, []string{"1"}, texts(t, s.pool, "SELECT count(*)::text FROM evil.events"))
	})
}

// Tables in the schema of temporary ones would vanish with each connection of the store.
func TestTemporarySearchPath(t *testing.T) {
	t.Parallel()
	s := server(t)
	const says = "begins with pg_temp, whose tables vanish with their connection: " +
		"name another schema first, or one in Config.Schema"
	withPath := func(t *testing.T, path string) string {
		t.Helper()
		return newDSN(t) + "&search_path=" + strings.ReplaceAll(url.QueryEscape(path), "+", "%20")
	}
	for _, path := range []string{
		"pg_temp", "pg_temp,public", " PG_Temp , public", `"pg_temp", public`,
		"nosuch, pg_temp, public", `"$user",pg_temp,public`, `"no ""such, one",pg_temp,public`,
	} {
		t.Run("refused is "+path, func(t *testing.T) {
			dsn := withPath(t, path)
			for _, readOnly := range []bool{false, true} {
				_, err := postgres.Open(t.Context(), dsn, postgres.Config{ReadOnly: readOnly})
				require.ErrorContains(t, err, path+" "+says)
			}
			require.Equal(t, []string{"0"}, texts(t, hostPool(t, dsn), `SELECT count(*)::text FROM pg_class
				WHERE relname LIKE 'watchdog%' OR relname = 'events'`), "nothing was created")
		})
	}
	for _, path := range []string{
		"public,pg_temp", `public, "pg_temp"`, "nosuch,public,pg_temp", `"PG_TEMP", public`, "pg_temporary, public",
		`"a, pg_temp", public`, `"$user", public`,
	} {
		t.Run("used is "+path, func(t *testing.T) {
			dsn := withPath(t, path)
			require.NoError(t, openAt(t, dsn, postgres.Config{}).Append(t.Context(), numbered(1)))
			require.Equal(t, []string{"1"}, texts(t, hostPool(t, dsn), "SELECT count(*)::text FROM public.events"))
		})
	}
	for name, set := range map[string]string{
		"the database's setting": "ALTER DATABASE %[1]s SET search_path = pg_temp, public",
		"the role's setting":     "ALTER ROLE postgres IN DATABASE %[1]s SET search_path = 'pg_temp', public",
	} {
		t.Run("refused is "+name, func(t *testing.T) {
			database := s.Database(t)
			mustExec(t, hostPool(t, s.DSN(database)), fmt.Sprintf(set, database))
			_, err := postgres.Open(t.Context(), s.DSN(database), postgres.Config{})
			require.ErrorContains(t, err, says)
		})
	}
	t.Run("with a schema of its own the store does not use the search_path", func(t *testing.T) {
		dsn := withPath(t, "pg_temp,public")
		require.NoError(t, openSchema(t, dsn, "own").Append(t.Context(), numbered(1)))
		require.Equal(t, []string{"event-1"}, read(t, openSchema(t, dsn, "own")))
	})
	t.Run("nor can that schema be a temporary one", func(t *testing.T) {
		for _, schema := range []string{"pg_temp", "pg_temp_3"} {
			_, err := postgres.Open(t.Context(), newDSN(t), postgres.Config{Schema: schema})
			require.ErrorContains(t, err, "the schema name \""+schema+"\" is that of temporary tables")
		}
	})
}

func openSchema(t *testing.T, dsn, schema string) *postgres.Store {
	t.Helper()
	return openAt(t, dsn, postgres.Config{Schema: schema, Outbox: true})
}
