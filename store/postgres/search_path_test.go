package postgres_test

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
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
		calls, plain := tableCalls(s.Store), tableCalls(openAt(t, newDSN(t), postgres.Config{Outbox: true}))
		says := func(err error) string { return database.ReplaceAllString(fmt.Sprint(err), "") }
		names := slices.Sorted(maps.Keys(calls))
		for _, name := range slices.Concat(names, names) { // the second time there are rows
			if name != "Follow" { // it goes on until its context ends
				assert.Equal(t, says(plain[name](t.Context())), says(calls[name](t.Context())), name)
			}
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
		assert.NotNil(t, openSchema(t, evil, "host"))
		assert.NotNil(t, openSchema(t, evil, "new"))
	})
	t.Run("and its schema is the first of the search_path", func(t *testing.T) {
		first := openSchema(t, evil, "")
		require.NoError(t, first.Append(t.Context(), numbered(1)))
		assert.Equal(t, []string{"1"}, texts(t, s.pool, "SELECT count(*)::text FROM evil.events"))
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
		"pg_temp", "pg_temp,public", " PG_Temp , public", `"pg_temp", public`, "pg_temp_3,public", `"pg_temp_3"`,
		"nosuch, pg_temp, public", `"$user",pg_temp,public`, `"no ""such, one",pg_temp,public`,
	} {
		t.Run("refused is "+path, func(t *testing.T) {
			dsn := withPath(t, path)
			for _, readOnly := range []bool{false, true} {
				_, err := postgres.Open(t.Context(), dsn, postgres.Config{ReadOnly: readOnly})
				require.ErrorContains(t, err, path+" "+says)
			}
			assert.Equal(t, []string{"0"}, texts(t, hostPool(t, dsn), `SELECT count(*)::text FROM pg_class
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
			assert.Equal(t, []string{"1"}, texts(t, hostPool(t, dsn), "SELECT count(*)::text FROM public.events"))
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
		assert.Equal(t, []string{"event-1"}, read(t, openSchema(t, dsn, "own")))
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
