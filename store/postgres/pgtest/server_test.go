package pgtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/store/internal/testrun"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

func TestMain(m *testing.M) {
	testrun.InMemory()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if n := pgtest.Templates(); n > 0 {
			fmt.Fprintln(os.Stderr, n, "templates are left, though all servers are closed")
			code = 1
		}
		os.Exit(code)
	}))
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
			require.Equal(t, want, got, setting)
		}
	})
	t.Run("has the given environment", func(t *testing.T) {
		const copied = `CREATE TABLE words (word text); COPY words FROM PROGRAM 'echo $PGTEST_WORD'`
		require.NoError(t, change(t.Context(), dsn, copied))
		got, err := queryOne(t, dsn, "SELECT word FROM words")
		require.NoError(t, err)
		require.Equal(t, "given", got)
	})
	t.Run("gives each test a database of its own", func(t *testing.T) {
		require.NotEqual(t, name, s.Database(t))
		got, err := queryOne(t, dsn, "SELECT current_database()")
		require.NoError(t, err)
		require.Equal(t, name, got)
	})
	testPooler(t, s, name)
	for how, stop := range map[string]func(){
		"stopped":         func() { s.Stop(false) },
		"stopped at once": func() { s.Stop(true) },
		"killed":          s.Kill,
	} {
		t.Run("that is "+how+" has no process left, and keeps its data when it starts again", func(t *testing.T) {
			stop()
			require.Empty(t, s.Processes())
			_, err := queryOne(t, dsn, "SELECT 'there'")
			require.Error(t, err)
			stop()
			require.NoError(t, s.Restart())
			got, err := queryOne(t, dsn, "SELECT 'there'")
			require.NoError(t, err)
			require.Equal(t, "there", got)
		})
	}
	require.NoError(t, s.Close())
	require.Empty(t, s.Processes())
	require.NoDirExists(t, s.Folder())
	require.NoError(t, s.Close())
}

// TestShared has two databases of one server.
func TestShared(t *testing.T) {
	t.Parallel()
	var shared, unused pgtest.Shared
	one, other := shared.DSN(t), shared.DSN(t)
	require.NotEqual(t, one, other)
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
			require.NotEqual(t, pid, conn.PgConn().PID(), "the connection leads to the server itself")
		})
	}
}

// change executes a statement by a connection of its own.
func change(ctx context.Context, dsn, statement string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

func TestStandby(t *testing.T) {
	for name, synchronous := range map[string]bool{"synchronous": true, "asynchronous": false} {
		t.Run("that is "+name, func(t *testing.T) {
			t.Parallel()
			testStandby(t, synchronous)
		})
	}
}

func testStandby(t *testing.T, synchronous bool) {
	primary := pgtest.Start(t, pgtest.Options{})
	database := primary.Database(t)
	ctx := t.Context()
	require.NoError(t, change(ctx, primary.DSN(database), "CREATE TABLE numbers (n int); INSERT INTO numbers VALUES (1)"))
	standby := pgtest.StartStandby(t, primary, pgtest.StandbyOptions{Synchronous: synchronous})
	both := pgtest.DSN(database, time.Second, standby.Server, primary)

	got, err := queryOne(t, standby.DSN(database), "SELECT string_agg(n::text, ' ') FROM numbers")
	require.NoError(t, err, "the standby answers reads")
	require.Equal(t, "1", got)
	require.ErrorContains(t, change(ctx, standby.DSN(database), "INSERT INTO numbers VALUES (0)"), "read-only")
	require.NoError(t, change(ctx, both, "INSERT INTO numbers VALUES (2)"), "the client finds the primary")
	state, err := queryOne(t, primary.DSN(database), "SELECT string_agg(sync_state, ' ') FROM pg_stat_replication")
	require.NoError(t, err)
	require.Equal(t, map[bool]string{true: "sync", false: "async"}[synchronous], state)

	require.NoError(t, standby.Disconnect(ctx))
	conn, err := pgx.Connect(ctx, both) // which can take a while
	require.NoError(t, err)
	limit := map[bool]time.Duration{true: 200 * time.Millisecond, false: time.Minute}[synchronous]
	limited, cancel := context.WithTimeout(ctx, limit)
	_, err = conn.Exec(limited, "INSERT INTO numbers VALUES (3)")
	cancel()
	require.Equal(t, synchronous, err != nil, "a commit waits for a synchronous standby")
	require.NoError(t, conn.Close(ctx))
	require.NoError(t, standby.Reconnect(ctx))
	require.NoError(t, change(ctx, both, "INSERT INTO numbers VALUES (4)"))
	if synchronous { // each commit is in the standby's log, and all before it
		primary.Kill()
	} else {
		require.NoError(t, standby.Disconnect(ctx))
		require.NoError(t, change(ctx, both, "INSERT INTO numbers VALUES (5)"))
		primary.Stop(true)
	}
	require.Error(t, change(ctx, both, "INSERT INTO numbers VALUES (6)"), "the standby is none that accepts writes")
	require.NoError(t, standby.Promote(ctx))
	require.NoError(t, change(ctx, both, "INSERT INTO numbers VALUES (7)"), "the client finds the new primary")
	got, err = queryOne(t, both, "SELECT string_agg(n::text, ' ' ORDER BY n) FROM numbers")
	require.NoError(t, err)
	require.Equal(t, "1 2 3 4 7", got, "what was committed while it was disconnected is lost")
	require.NotEqual(t, database, standby.Database(t))

	third := pgtest.StartStandby(t, standby.Server, pgtest.StandbyOptions{Synchronous: synchronous})
	require.NoError(t, change(ctx, both, "INSERT INTO numbers VALUES (8)"), "a standby can have one of its own")
	require.NoError(t, standby.Restart())
	require.NoError(t, change(ctx, both, "INSERT INTO numbers VALUES (9)"), "and finds it again after a restart")
	for _, s := range []*pgtest.Server{third.Server, standby.Server, primary} {
		require.NoError(t, s.Close())
		require.Empty(t, s.Processes())
		require.NoDirExists(t, s.Folder())
	}
}
