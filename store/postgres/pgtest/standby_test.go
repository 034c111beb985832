package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

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
	assert.Equal(t, "1", got)
	require.ErrorContains(t, change(ctx, standby.DSN(database), "INSERT INTO numbers VALUES (0)"), "read-only")
	require.NoError(t, change(ctx, both, "INSERT INTO numbers VALUES (2)"), "the client finds the primary")
	state, err := queryOne(t, primary.DSN(database), "SELECT string_agg(sync_state, ' ') FROM pg_stat_replication")
	require.NoError(t, err)
	assert.Equal(t, map[bool]string{true: "sync", false: "async"}[synchronous], state)

	require.NoError(t, standby.Disconnect(ctx))
	limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	err = change(limited, both, "INSERT INTO numbers VALUES (3)")
	cancel()
	assert.Equal(t, synchronous, err != nil, "a commit waits for a synchronous standby")
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
	assert.Equal(t, "1 2 3 4 7", got, "what was committed while it was disconnected is lost")
	assert.NotEqual(t, database, standby.Database(t))

	third := pgtest.StartStandby(t, standby.Server, pgtest.StandbyOptions{Synchronous: synchronous})
	require.NoError(t, change(ctx, both, "INSERT INTO numbers VALUES (8)"), "a standby can have one of its own")
	require.NoError(t, standby.Restart())
	require.NoError(t, change(ctx, both, "INSERT INTO numbers VALUES (9)"), "and finds it again after a restart")
	for _, s := range []*pgtest.Server{third.Server, standby.Server, primary} {
		require.NoError(t, s.Close())
		assert.Empty(t, s.Processes())
		assert.NoDirExists(t, s.Folder())
	}
}
