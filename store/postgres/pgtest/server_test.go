package pgtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/ramdisk"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

func TestMain(m *testing.M) {
	ramdisk.Use()
	goleak.VerifyTestMain(m)
}

// queryOne returns the value of a query with one row and one column.
func queryOne(t *testing.T, dsn, statement string) (text string, err error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	err = conn.QueryRow(t.Context(), statement).Scan(&text)
	return text, err
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{
		Settings: []string{"max_connections=7"}, Environment: []string{"PGTEST_WORD=given"},
	})
	name := s.Database(t)
	dsn := s.DSN(name)
	t.Run("has the given settings, and does not sync", func(t *testing.T) {
		for setting, want := range map[string]string{"max_connections": "7", "fsync": "off", "listen_addresses": ""} {
			got, err := queryOne(t, dsn, "SHOW "+setting)
			require.NoError(t, err)
			assert.Equal(t, want, got, setting)
		}
	})
	t.Run("has the given environment", func(t *testing.T) {
		const copied = `CREATE TABLE words (word text); COPY words FROM PROGRAM 'echo $PGTEST_WORD'`
		require.NoError(t, change(t.Context(), dsn, copied))
		got, err := queryOne(t, dsn, "SELECT word FROM words")
		require.NoError(t, err)
		assert.Equal(t, "given", got)
	})
	t.Run("gives each test a database of its own", func(t *testing.T) {
		assert.NotEqual(t, name, s.Database(t))
		got, err := queryOne(t, dsn, "SELECT current_database()")
		require.NoError(t, err)
		assert.Equal(t, name, got)
	})
	testPooler(t, s, name)
	for how, stop := range map[string]func(){
		"stopped":         func() { s.Stop(false) },
		"stopped at once": func() { s.Stop(true) },
		"killed":          s.Kill,
	} {
		t.Run("that is "+how+" has no process left, and keeps its data when it starts again", func(t *testing.T) {
			stop()
			assert.Empty(t, s.Processes())
			_, err := queryOne(t, dsn, "SELECT 'there'")
			require.Error(t, err)
			stop()
			require.NoError(t, s.Restart())
			got, err := queryOne(t, dsn, "SELECT 'there'")
			require.NoError(t, err)
			assert.Equal(t, "there", got)
		})
	}
	require.NoError(t, s.Close())
	assert.Empty(t, s.Processes())
	assert.NoDirExists(t, s.Folder())
	require.NoError(t, s.Close())
}

// TestShared has two databases of one server.
func TestShared(t *testing.T) {
	t.Parallel()
	var shared, unused pgtest.Shared
	one, other := shared.DSN(t), shared.DSN(t)
	assert.NotEqual(t, one, other)
	for _, dsn := range []string{one, other} {
		_, err := queryOne(t, dsn, "SELECT 'it answers'")
		require.NoError(t, err)
	}
	require.NoError(t, shared.Close())
	_, err := queryOne(t, one, "SELECT 'it answers'")
	require.Error(t, err)
	require.NoError(t, unused.Close(), "none was started")
}

// New says why a server does not start.
func TestServerError(t *testing.T) {
	t.Parallel()
	_, err := pgtest.New(t.Context(), pgtest.Options{Settings: []string{"no_such_setting=1"}})
	if errors.Is(err, pgtest.ErrNotInstalled) {
		t.Skip("PostgreSQL is needed for this test:", err)
	}
	require.ErrorContains(t, err, "no_such_setting")
}

func testPooler(t *testing.T, s *pgtest.Server, name string) {
	t.Helper()
	for _, mode := range []string{pgtest.SessionMode, pgtest.TransactionMode} {
		t.Run("in "+mode+" mode leads to the server", func(t *testing.T) {
			p := pgtest.StartPooler(t, s, mode)
			conn, err := pgx.Connect(t.Context(), p.DSN(name))
			require.NoError(t, err)
			defer conn.Close(context.WithoutCancel(t.Context()))
			var pid uint32
			require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid))
			assert.NotEqual(t, pid, conn.PgConn().PID(), "the connection leads to the server itself")
		})
	}
}
