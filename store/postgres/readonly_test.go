package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

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
			_, err := postgres.Open(t.Context(), asViewer, cfg)
			require.Error(t, err, "before "+grant)
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
			_, err := postgres.Open(t.Context(), dsn, test.cfg)
			require.ErrorContains(t, err, test.says)
			require.Equal(t, before, texts(t, pool, relations))
		})
	}
	t.Run("of an older schema only what is not there", func(t *testing.T) {
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		openAt(t, dsn, postgres.Config{})
		mustExec(t, pool, "DROP TABLE watchdog_sessions, watchdog_lease_ends, watchdog_leases, watchdog_outbox")
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
