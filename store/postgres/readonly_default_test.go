package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// A store that writes says which setting has its transactions be read-only, and where it is, and guesses no standby.
func TestDefaultReadOnly(t *testing.T) {
	t.Parallel()
	const setting = "default_transaction_read_only"
	refused := func(t *testing.T, dsn, where string) {
		t.Helper()
		_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		require.ErrorContains(t, err, setting+" is on, set "+where+": set it to off there, or in the connection string")
		assert.NotContains(t, err.Error(), "standby")
		off := openAt(t, dsn+"&"+setting+"=off", postgres.Config{})
		assert.NoError(t, off.Append(t.Context(), numbered(1)), "what the error says to do")
	}
	t.Run("set in the connection string", func(t *testing.T) {
		dsn := newDSN(t)
		_, err := postgres.Open(t.Context(), dsn+"&"+setting+"=on", postgres.Config{})
		require.ErrorContains(t, err, setting+" is on, set in the connection string")
		assert.NotContains(t, err.Error(), "standby")
	})
	t.Run("set for the database", func(t *testing.T) {
		s := server(t)
		database := s.Database(t)
		mustExec(t, hostPool(t, s.DSN(database)), "ALTER DATABASE "+database+" SET "+setting+" = on")
		refused(t, s.DSN(database), "for the database (ALTER DATABASE)")
	})
	for where, of := range map[string]string{
		"for the role (ALTER ROLE)": "", "for the role in the database (ALTER ROLE IN DATABASE)": " IN DATABASE ",
	} {
		t.Run("set "+where, func(t *testing.T) {
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
		refused(t, s.DSN("postgres"), "on the server's command line")
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
		require.ErrorContains(t, err, setting+" is on, set by a statement of the connection's own")
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
		require.ErrorContains(t, err, setting+" is on, set for the database")
		assert.NotContains(t, err.Error(), "standby")
		err = writer.BeginLease(t.Context(), session.Lease{ID: lease1, Host: "here", Promise: session.ShortestPromise})
		require.ErrorContains(t, err, setting+" is on, set for the database", "on the connection of leases")
	})
	t.Run("a store that reads only does not mind", func(t *testing.T) {
		dsn := newDSN(t)
		require.NoError(t, openAt(t, dsn, postgres.Config{}).Append(t.Context(), numbered(1)))
		s := openAt(t, dsn+"&"+setting+"=on", postgres.Config{ReadOnly: true})
		assert.Equal(t, []string{"event-1"}, read(t, s))
	})
	t.Run("a standby is called one, whatever the setting is", func(t *testing.T) {
		primary := pgtest.Start(t, pgtest.Options{})
		standby := pgtest.StartStandby(t, primary, pgtest.StandbyOptions{})
		for _, dsn := range []string{standby.DSN("postgres"), standby.DSN("postgres") + "&" + setting + "=on"} {
			_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
			require.ErrorContains(t, err, "it is read-only: it is a standby: name the primary")
		}
	})
}
