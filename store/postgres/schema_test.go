package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/event/eventtest"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/session/sessiontest"
	"github.com/seed62658d38/watchdog/store/internal/testrun"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
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
		"whose IDs are not unique": {changed("PRIMARY KEY", ""), "id"},
		"whose IDs are unique only with another column": {
			changed("PRIMARY KEY", "", "UNIQUE (id, event_type)"), "id",
		},
		"whose unique IDs are deferrable": {changed("PRIMARY KEY", "", "UNIQUE (id) DEFERRABLE"), "id"},
		"whose IDs are UUIDs":             {changed("id varchar(36)", "id uuid"), "uuid"},
		"whose run IDs are padded":        {changed("aggregate_id varchar(255)", "aggregate_id char(36)"), "aggregate_id"},
		"whose run IDs ignore case": {
			`CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false); ` +
				changed("aggregate_id varchar(255)", "aggregate_id text COLLATE folding"), "aggregate_id",
		},
		"whose times have no zone":    {changed("timestamptz", "timestamp"), "timestamptz"},
		"whose payload is normalized": {changed("json", "jsonb"), "jsonb"},
		"whose payload is computed": {
			changed("payload json", "payload json GENERATED ALWAYS AS ('{}'::json) STORED"), "payload",
		},
		"that needs a consensus ID": {
			changed("consensus_id text", "consensus_id text NOT NULL DEFAULT ''"), "consensus_id",
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

// changed returns tableWith with one text in the place of another.
func changed(old, by string, more ...string) string {
	return strings.Replace(tableWith(more...), old, by, 1)
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
	if testrun.Racing {
		t.Skip("runs in the plain tests only: it takes long, and runs the same Go code as TestEvents and others")
	}
	t.Parallel()
	dsn := server(t).DSN(server(t).Database(t)) // to drop so many functions takes longer than to create a database
	mustExec(t, hostPool(t, dsn), shadows)
	evil := dsn + "&search_path=evil,pg_catalog,public"
	_, err := hostPool(t, evil).Exec(t.Context(), "SELECT 1 FROM (VALUES ('a'::varchar)) AS v (a) WHERE a = 'a'")
	require.ErrorContains(t, err, "evil operator", "the test has to find an operator by the search_path")
	s := putter{openSchema(t, evil, "public"), hostPool(t, dsn)}
	t.Run("for each call", func(t *testing.T) {
		calls := tableCalls(t.Context(), s.Store)
		plain := tableCalls(t.Context(), openAt(t, newDSN(t), postgres.Config{}))
		says := func(err error) string { return database.ReplaceAllString(fmt.Sprint(err), "") }
		names := slices.Sorted(maps.Keys(calls))
		for _, name := range slices.Concat(names, names) { // the second time there are rows
			require.Equal(t, says(plain[name]()), says(calls[name]()), name)
		}
	})
	t.Run("for events", func(t *testing.T) {
		eventtest.Run(t, func(t *testing.T) event.Store { return s.emptied(t) })
	})
	t.Run("for sessions", func(t *testing.T) {
		testrun.LongOnly(t)
		sessiontest.Run(t, func(t *testing.T) session.Store { return s.emptied(t) })
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
	return openAt(t, dsn, postgres.Config{Schema: schema})
}

// readsOnly expects a store to read an event and a session, and to refuse to write.
func readsOnly(t *testing.T, s *postgres.Store) {
	t.Helper()
	for range 3 { // prepared statements are sent otherwise than new ones
		calls := tableCalls(t.Context(), s)
		delete(calls, "Ended") // a keeper's own, for which a role that only reads has no right
		for name, call := range calls {
			if err := call(); slices.Contains(reading, name) {
				require.NoError(t, err, name)
			} else {
				require.ErrorIs(t, err, postgres.ErrReadOnly, name)
			}
		}
		setting, err := s.Setting(t.Context(), "transaction_read_only")
		require.NoError(t, err)
		require.Equal(t, "on", setting)
	}
	require.Equal(t, []string{"event-1"}, read(t, s))
	require.Equal(t, []string{"run-1"}, listed(t, s, session.ListQuery{Limit: 10}))
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	t.Run("a store reads, and writes nothing", func(t *testing.T) {
		dsn := newDSN(t)
		writer := openAt(t, dsn, postgres.Config{})
		require.NoError(t, writer.Append(t.Context(), numbered(1)))
		attach(t, writer, "run-1")
		pool := hostPool(t, dsn)
		const all = `SELECT t::text FROM events t UNION ALL SELECT t::text FROM watchdog_sessions t
			UNION ALL SELECT t::text FROM watchdog_schema t ORDER BY 1`
		before := texts(t, pool, all)
		readsOnly(t, openAt(t, dsn, postgres.Config{ReadOnly: true}))
		own, err := postgres.New(t.Context(), pool, postgres.Config{ReadOnly: true})
		require.NoError(t, err)
		readsOnly(t, own)
		require.NoError(t, own.Close())
		require.Equal(t, before, texts(t, pool, all))
		require.Equal(t, []string{"off"}, texts(t, pool, "SHOW transaction_read_only"), "in the host's pool")
	})
	t.Run("it follows what others write, and hears of cancels", func(t *testing.T) {
		dsn := newDSN(t)
		writer := openAt(t, dsn, postgres.Config{})
		l := listen(t, openAt(t, dsn, postgres.Config{ReadOnly: true}))
		cancelOne(t, writer, "run-1")
		require.Equal(t, "run-1", wait(t, l.told))
		l.stop()
		require.NoError(t, <-l.ended)
	})
	t.Run("a role needs the documented rights, and each of them", func(t *testing.T) {
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		cfg := postgres.Config{Schema: "watchdog"}
		writer := openAt(t, dsn, cfg)
		require.NoError(t, writer.Append(t.Context(), numbered(1)))
		attach(t, writer, "run-1")
		mustExec(t, pool, "DROP ROLE IF EXISTS viewer", "CREATE ROLE viewer LOGIN")
		t.Cleanup(func() { mustExec(t, pool, "DROP OWNED BY viewer", "DROP ROLE viewer") })
		asViewer := strings.Replace(dsn, "user=postgres", "user=viewer", 1)
		cfg.ReadOnly = true
		for _, grant := range documented(t, "operations.md", "Reading only") {
			require.Error(t, second(postgres.Open(t.Context(), asViewer, cfg)), "before "+grant)
			mustExec(t, pool, grant)
		}
		readsOnly(t, openAt(t, asViewer, cfg))
	})
	t.Run("a standby is read", func(t *testing.T) {
		t.Parallel()
		primary := pgtest.Start(t, pgtest.Options{})
		standby := pgtest.StartStandby(t, primary, pgtest.StandbyOptions{})
		database := primary.Database(t)
		writer := openAt(t, primary.DSN(database), postgres.Config{})
		require.NoError(t, writer.Append(t.Context(), numbered(1)))
		attach(t, writer, "run-1")
		require.NoError(t, standby.CatchUp(t.Context()))
		require.Eventually(t, func() bool { // what it has on disk it applies a little later
			s, err := postgres.Open(t.Context(), standby.DSN(database), postgres.Config{ReadOnly: true})
			if err != nil {
				return false
			}
			defer s.Close()
			_, err = s.Session(t.Context(), "run-1")
			return err == nil
		}, time.Minute, 100*time.Millisecond)
		readsOnly(t, openAt(t, standby.DSN(database), postgres.Config{ReadOnly: true}))
		for _, setting := range []string{"", "&default_transaction_read_only=on"} {
			_, err := postgres.Open(t.Context(), standby.DSN(database)+setting, postgres.Config{})
			require.ErrorContains(t, err, "it is read-only: it is a standby: name the primary", "a store that writes")
		}
	})
	t.Run("through a pooler in transaction mode", func(t *testing.T) {
		pooler := pgtest.StartPooler(t, server(t), "transaction")
		database := server(t).Database(t)
		writer := openAt(t, pooler.DSN(database), postgres.Config{})
		require.NoError(t, writer.Append(t.Context(), numbered(1)))
		attach(t, writer, "run-1")
		readsOnly(t, openAt(t, pooler.DSN(database), postgres.Config{ReadOnly: true}))
		require.NoError(t, writer.Append(t.Context(), numbered(2)), "the pooler's connections can write")
	})
}

// Compiling a page of a million sessions takes most of a second, and reading it a thousandth of that.
func TestNotCompiled(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	openAt(t, dsn, postgres.Config{})
	for _, readOnly := range []bool{false, true} {
		s := openAt(t, dsn, postgres.Config{ReadOnly: readOnly})
		for range 3 { // prepared statements are sent otherwise than new ones
			setting, err := s.Setting(t.Context(), "jit")
			require.NoError(t, err)
			require.Equal(t, "off", setting)
		}
	}
}

func TestReadOnlyRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg        postgres.Config
		statements []string
		says       string
	}{
		"a database without events":  {says: "has no table of events, and none is created"},
		"a schema that is not there": {cfg: postgres.Config{Schema: "nosuch"}, says: "none is created"},
		"a newer schema": {
			statements: []string{"CREATE TABLE watchdog_schema AS SELECT 99 AS version, 99 AS oldest_reader"},
			says:       postgres.ErrNewerSchema.Error(),
		},
		"a foreign table": {
			statements: []string{"CREATE TABLE events (n integer)"}, says: postgres.ErrForeignTable.Error(),
		},
	} {
		t.Run(name+", and creates nothing", func(t *testing.T) {
			dsn := newDSN(t)
			pool := hostPool(t, dsn)
			mustExec(t, pool, test.statements...)
			const relations = `SELECT relname::text FROM pg_class WHERE relnamespace <> 11 ORDER BY 1`
			before := texts(t, pool, relations)
			test.cfg.ReadOnly = true
			require.ErrorContains(t, second(postgres.Open(t.Context(), dsn, test.cfg)), test.says)
			require.Equal(t, before, texts(t, pool, relations))
		})
	}
	t.Run("of an older schema only what is not there", func(t *testing.T) {
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		openAt(t, dsn, postgres.Config{})
		mustExec(t, pool, "DROP TABLE watchdog_sessions, watchdog_lease_ends, watchdog_leases")
		s := openAt(t, dsn, postgres.Config{ReadOnly: true})
		require.Empty(t, read(t, s))
		_, err := s.List(t.Context(), session.ListQuery{Limit: 1})
		require.ErrorContains(t, err, "the schema is older than this program: open the database once with a program that writes")
		require.Equal(t, []string{"8"}, texts(t, pool, "SELECT version::text FROM watchdog_schema"))
	})
}

// A store that writes says which setting has its transactions be read-only, and where it is, and guesses no standby.
func TestDefaultReadOnly(t *testing.T) {
	t.Parallel()
	const setting = "default_transaction_read_only"
	refused := func(t *testing.T, dsn, where string) {
		t.Helper()
		_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		require.ErrorContains(t, err, setting+" is on, by what pg_settings calls its source "+where+": set it to off there, or in the connection string")
		require.NotContains(t, err.Error(), "standby")
		off := openAt(t, dsn+"&"+setting+"=off", postgres.Config{})
		require.NoError(t, off.Append(t.Context(), numbered(1)), "what the error says to do")
	}
	t.Run("set in the connection string", func(t *testing.T) {
		dsn := newDSN(t)
		_, err := postgres.Open(t.Context(), dsn+"&"+setting+"=on", postgres.Config{})
		require.ErrorContains(t, err, setting+" is on, by what pg_settings calls its source client")
		require.NotContains(t, err.Error(), "standby")
	})
	t.Run("set for the database", func(t *testing.T) {
		s := server(t)
		database := s.Database(t)
		mustExec(t, hostPool(t, s.DSN(database)), "ALTER DATABASE "+database+" SET "+setting+" = on")
		refused(t, s.DSN(database), "database")
	})
	for where, of := range map[string]string{
		"user": "", "database user": " IN DATABASE ",
	} {
		t.Run("set for the "+where, func(t *testing.T) {
			s := server(t)
			database := s.Database(t)
			if of != "" {
				of += database
			}
			pool := hostPool(t, s.DSN(database))
			mustExec(t, pool, "CREATE ROLE careful LOGIN SUPERUSER", "ALTER ROLE careful"+of+" SET "+setting+" = on")
			t.Cleanup(func() { mustExec(t, pool, "DROP OWNED BY careful", "DROP ROLE careful") })
			refused(t, strings.Replace(s.DSN(database), "user=postgres", "user=careful", 1), where)
		})
	}
	t.Run("set for the server", func(t *testing.T) {
		s := pgtest.Start(t, pgtest.Options{Settings: []string{setting + "=on"}})
		refused(t, s.DSN("postgres"), "command line")
		_, err := postgres.Open(t.Context(), s.DSN("postgres")+"&target_session_attrs=read-write", postgres.Config{})
		require.ErrorContains(t, err, "no host accepts writes: name the primary, or see where "+setting+" is set")
	})
	t.Run("set by the host's pool", func(t *testing.T) {
		pool := hostPool(t, newDSN(t), func(c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "SET "+setting+" = on")
				return err
			}
		})
		_, err := postgres.New(t.Context(), pool, postgres.Config{})
		require.ErrorContains(t, err, setting+" is on, by what pg_settings calls its source session")
	})
	t.Run("set while the store is open, every call says it", func(t *testing.T) {
		s := server(t)
		database := s.Database(t)
		pool := hostPool(t, s.DSN(database))
		writer := openAt(t, s.DSN(database)+"&pool_max_conns=1", postgres.Config{})
		require.NoError(t, writer.Append(t.Context(), numbered(1)))
		mustExec(t, pool, "ALTER DATABASE "+database+" SET "+setting+" = on", `
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		var err error
		for range 3 { // the first finds that its connection has ended
			if err = writer.Append(t.Context(), numbered(2)); err != nil && strings.Contains(err.Error(), "25006") {
				break
			}
		}
		require.ErrorContains(t, err, setting+" is on, by what pg_settings calls its source database")
		require.NotContains(t, err.Error(), "standby")
		err = writer.BeginLease(t.Context(), session.Lease{ID: lease1, Host: "here", Promise: session.ShortestPromise})
		require.ErrorContains(t, err, setting+" is on, by what pg_settings calls its source database", "on the connection of leases")
	})
	t.Run("a store that reads only does not mind", func(t *testing.T) {
		dsn := newDSN(t)
		require.NoError(t, openAt(t, dsn, postgres.Config{}).Append(t.Context(), numbered(1)))
		s := openAt(t, dsn+"&"+setting+"=on", postgres.Config{ReadOnly: true})
		require.Equal(t, []string{"event-1"}, read(t, s))
	})
}
