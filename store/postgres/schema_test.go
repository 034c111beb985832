package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

func TestNewSchema(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	openAt(t, dsn, postgres.Config{})
	pool := hostPool(t, dsn)
	columns := texts(t, pool, `SELECT
			concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END)
		FROM pg_attribute a WHERE a.attrelid = 'events'::regclass AND a.attnum > 0 ORDER BY a.attnum`)
	assert.Equal(t, []string{
		"id character varying(36) NOT NULL", "aggregate_type character varying(100) NOT NULL",
		"aggregate_id character varying(255) NOT NULL", "event_type character varying(200) NOT NULL",
		"payload json NOT NULL", "timestamp timestamp with time zone NOT NULL", "consensus_id character varying(36)",
	}, columns)
	assert.Equal(t, []string{
		"events_pkey", "watchdog_events_aggregate", "watchdog_events_parent", "watchdog_events_type",
	}, indexes(t, dsn))
	assert.Equal(t, []string{"1 1"}, texts(t, pool, "SELECT version || ' ' || oldest_reader FROM watchdog_schema"))
}

func TestExistingDatabase(t *testing.T) {
	t.Parallel()
	t.Run("of a newer version is refused and left as it is", func(t *testing.T) {
		t.Parallel()
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		mustExec(t, pool, "CREATE TABLE watchdog_schema (version integer PRIMARY KEY, oldest_reader integer)",
			"INSERT INTO watchdog_schema VALUES (1, 1), (99, 99)")
		before := texts(t, pool, everything)
		_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		require.ErrorIs(t, err, postgres.ErrNewerSchema)
		require.ErrorContains(t, err, "99")
		assert.Equal(t, before, texts(t, pool, everything))
	})
	for reader, refused := range map[string]bool{"97": true, "2": true, "1": false} {
		t.Run("of a newer version for programs from version "+reader+" on", func(t *testing.T) {
			t.Parallel()
			dsn := newDSN(t)
			pool := hostPool(t, dsn)
			openAt(t, dsn, postgres.Config{})
			mustExec(t, pool, "ALTER TABLE watchdog_sessions ADD COLUMN newer text",
				"INSERT INTO watchdog_schema VALUES (98, 1), (99, "+reader+")")
			before := texts(t, pool, everything)
			s, err := postgres.Open(t.Context(), dsn, postgres.Config{})
			assert.Equal(t, before, texts(t, pool, everything))
			if refused {
				require.ErrorIs(t, err, postgres.ErrNewerSchema)
				return
			}
			require.NoError(t, err)
			attach(t, s, "run-1")
			require.NoError(t, s.Close())
			assert.Equal(t, []string{"1", "98", "99"},
				texts(t, pool, "SELECT version::text FROM watchdog_schema ORDER BY version"))
		})
	}
	for _, table := range []string{"events", "watchdog_sessions", "watchdog_outbox", "watchdog_spend", "watchdog_slices", "watchdog_lease_ends"} {
		t.Run("whose "+table+" were dropped gets them again", func(t *testing.T) {
			t.Parallel()
			dsn := newDSN(t)
			openAt(t, dsn, postgres.Config{})
			mustExec(t, hostPool(t, dsn), "DROP TABLE "+table+" CASCADE")
			s := openAt(t, dsn, postgres.Config{})
			cancelsAtOnce(t, s)
			_, err := s.Take(t.Context(), sliceOf("slice-1", 1, 60))
			require.NoError(t, err)
		})
	}
	t.Run("with a table of slices that is not ours is refused", func(t *testing.T) {
		t.Parallel()
		dsn := newDSN(t)
		openAt(t, dsn, postgres.Config{})
		mustExec(t, hostPool(t, dsn), "DROP TABLE watchdog_slices", "CREATE TABLE watchdog_slices (id text, tenant text)")
		_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		require.ErrorIs(t, err, postgres.ErrForeignTable)
		require.ErrorContains(t, err, "watchdog_slices lacks scope")
	})
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	pool := hostPool(t, dsn)
	mustExec(t, pool, `CREATE SCHEMA "search path"`)
	var stores []*postgres.Store
	for _, schema := range []string{"", "a", "A", `o'brien "x"; DROP SCHEMA a CASCADE; --`, "日本語", "SCHEMA.events"} {
		stores = append(stores, openAt(t, dsn, postgres.Config{Schema: schema}))
	}
	stores = append(stores, openAt(t, dsn+"&search_path="+"%22search%20path%22", postgres.Config{}))
	for i, s := range stores {
		require.NoError(t, s.Append(t.Context(), numbered(int64(i))))
		judged := attach(t, s, "run-1")
		assert.Equal(t, 1, judged.Attempt)
		begin(t, s, lease1)
		_, err := s.Freshen(t.Context(), lease1, []session.Freshness{{RunID: "run-1", Attempt: 1}})
		require.NoError(t, err)
		g, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
		require.NoError(t, err)
		assert.EqualValues(t, 5, g.Charged.Requests, "each schema has its own scopes")
	}
	for i, s := range stores {
		assert.Equal(t, []string{fmt.Sprint("event-", i)}, read(t, s))
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
			assert.Equal(t, []string{"1"}, texts(t, hostPool(t, dsn), inSchema))
		})
	}
}
