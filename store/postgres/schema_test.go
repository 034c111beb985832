package postgres_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/storeflow"
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
	assert.Equal(t, versions(1), texts(t, pool, "SELECT version::text FROM watchdog_schema ORDER BY version"))
}

func TestExistingDatabase(t *testing.T) {
	t.Parallel()
	t.Run("of a newer version is refused and left as it is", func(t *testing.T) {
		t.Parallel()
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		mustExec(t, pool, "CREATE TABLE watchdog_schema (version integer PRIMARY KEY)",
			"INSERT INTO watchdog_schema VALUES (1), (99)")
		before := texts(t, pool, everything)
		_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		require.ErrorIs(t, err, postgres.ErrNewerSchema)
		require.ErrorContains(t, err, "99")
		assert.Equal(t, before, texts(t, pool, everything))
	})
	t.Run("of the first version gets its sessions", func(t *testing.T) {
		t.Parallel()
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		require.NoError(t, openAt(t, dsn, postgres.Config{}).Append(t.Context(), numbered(1)))
		mustExec(t, pool, "DROP TABLE watchdog_sessions", "DELETE FROM watchdog_schema WHERE version > 1")
		s := openAt(t, dsn, postgres.Config{})
		attach(t, s, "run-1")
		assert.Equal(t, []string{"event-1"}, read(t, s))
	})
	for name, steps := range map[string][]string{
		"of the version before leases":                  {"DELETE FROM watchdog_schema WHERE version > 2", "DROP INDEX watchdog_events_parent"},
		"of this version, made when that had no leases": {},
	} {
		t.Run(name+" gets its leases", func(t *testing.T) {
			t.Parallel()
			dsn := newDSN(t)
			pool := hostPool(t, dsn)
			attach(t, openAt(t, dsn, postgres.Config{}), "run-1")
			mustExec(t, pool, slices.Concat(withoutLeases, steps)...)
			var stores []*postgres.Store
			for range 2 {
				stores = append(stores, openAt(t, dsn, postgres.Config{}))
			}
			begin(t, stores[0], lease1)
			_, err := stores[0].Freshen(t.Context(), lease1, []session.Freshness{{RunID: "run-1", Attempt: 1, Activity: 7}})
			require.NoError(t, err)
			got := sessionOf(t, stores[1], "run-1")
			assert.Equal(t, lease1, got.Lease)
			assert.EqualValues(t, 7, got.Activity)
			assert.Zero(t, got.Threshold)
			assert.Equal(t, versions(1), texts(t, pool, "SELECT version::text FROM watchdog_schema ORDER BY version"))
		})
	}
	for reader, refused := range map[string]bool{"NULL": true, "97": true, "7": false, "1": false} {
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
			assert.Equal(t, append(versions(1), "98", "99"),
				texts(t, pool, "SELECT version::text FROM watchdog_schema ORDER BY version"))
		})
	}
	t.Run("that others use is not migrated while they wait", func(t *testing.T) {
		t.Parallel()
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		openAt(t, dsn, postgres.Config{})
		mustExec(t, pool, withoutLeases...)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		_, err = tx.Exec(t.Context(), "SELECT FROM watchdog_sessions") // as a backup does
		require.NoError(t, err)
		_, err = postgres.Open(t.Context(), dsn, postgres.Config{})
		require.ErrorContains(t, err, "lock_timeout allows")
		require.NoError(t, tx.Rollback(t.Context()))
		begin(t, openAt(t, dsn, postgres.Config{}), lease1)
	})
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
	t.Run("of version 4 keeps what is in the outbox, and has it delivered", func(t *testing.T) {
		t.Parallel()
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		require.NoError(t, openAt(t, dsn, postgres.Config{}).Close())
		fresh := texts(t, pool, outboxDefinition)
		mustExec(t, pool, "DELETE FROM watchdog_schema WHERE version = 5", "DROP TABLE watchdog_outbox",
			`CREATE TABLE watchdog_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id text NOT NULL,
				aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL, created_at timestamptz NOT NULL)`,
			putBefore("old-1"), putBefore("old-2"), putBefore("old-1"))
		s := openAt(t, dsn, withOutbox)
		mustExec(t, pool, putBefore("old-3"), putBefore("old-2")) // a process of version 4 that goes on
		assert.Equal(t, []string{"old-1 1", "old-2 1", "old-1 1", "old-3 1", "old-2 1"}, claimAll(t, s, time.Hour))
		assert.Equal(t, fresh, texts(t, pool, outboxDefinition))
		assert.Equal(t, versions(1), texts(t, pool, "SELECT version::text FROM watchdog_schema ORDER BY version"))
	})
	t.Run("whose columns of deliveries were dropped gets them again", func(t *testing.T) {
		t.Parallel()
		dsn := newDSN(t)
		openAt(t, dsn, withOutbox)
		mustExec(t, hostPool(t, dsn), "ALTER TABLE watchdog_outbox DROP COLUMN due_at, DROP COLUMN alert", putBefore("old"))
		assert.Equal(t, []string{"old 1"}, claimAll(t, openAt(t, dsn, withOutbox), time.Hour))
	})
	t.Run("whose outbox others use is not migrated while they wait", func(t *testing.T) {
		t.Parallel()
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		openAt(t, dsn, withOutbox)
		mustExec(t, pool, "ALTER TABLE watchdog_outbox DROP COLUMN due_at")
		tx := lockNotice(t, pool, "any") // as a backup does
		_, err := postgres.Open(t.Context(), dsn, withOutbox)
		require.ErrorContains(t, err, "lock_timeout allows")
		require.NoError(t, tx.Rollback(t.Context()))
		openAt(t, dsn, withOutbox)
	})
	t.Run("can be used by programs from version 3 on", func(t *testing.T) {
		t.Parallel()
		dsn := newDSN(t)
		openAt(t, dsn, postgres.Config{})
		assert.Equal(t, []string{"1", "2", "3", "3", "3", "3", "3"},
			texts(t, hostPool(t, dsn), "SELECT oldest_reader::text FROM watchdog_schema ORDER BY version"))
	})
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

// outboxDefinition lists the columns, indexes and settings of the outbox.
const outboxDefinition = `
	SELECT concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
	FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
	WHERE a.attrelid = 'watchdog_outbox'::regclass AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL SELECT indexdef FROM pg_indexes WHERE tablename = 'watchdog_outbox'
	UNION ALL SELECT reloptions::text FROM pg_class WHERE relname = 'watchdog_outbox' ORDER BY 1`

// withoutLeases makes a database as it was before leases.
var withoutLeases = []string{
	`ALTER TABLE watchdog_sessions DROP COLUMN lease, DROP COLUMN leased, DROP COLUMN own_threshold, DROP COLUMN activity,
		DROP COLUMN quiet_since, DROP COLUMN quiet_due, DROP COLUMN state, DROP COLUMN claim, DROP COLUMN claimed_until,
		DROP COLUMN warned_at, DROP COLUMN warned_attempt, DROP COLUMN warned_lease, DROP COLUMN warned_beat,
		DROP COLUMN warned_last_event, DROP COLUMN stop_failed`,
	"ALTER TABLE watchdog_schema DROP COLUMN oldest_reader", "DROP TABLE watchdog_lease_ends, watchdog_leases, watchdog_outbox",
	"DROP INDEX watchdog_sessions_created, watchdog_sessions_live, watchdog_sessions_parent, watchdog_sessions_host",
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
			assert.Equal(t, versions(1), texts(t, hostPool(t, dsn), inSchema))
		})
	}
}

// versions are those of a new schema, from one on, each with the oldest reader if there is one.
func versions(from int, reader ...string) (all []string) {
	for version := from; version <= storeflow.Newest; version++ {
		all = append(append(all, strconv.Itoa(version)), reader...)
	}
	return all
}
