package postgres_test

import (
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/internal/beforetest"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// TestBefore opens a database that an older version wrote.
func TestBefore(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	written, err := os.ReadFile("testdata/before.sql")
	require.NoError(t, err)
	require.NoError(t, second(conn.PgConn().Exec(t.Context(), string(written)).ReadAll()))
	beforetest.Check(t, openAt(t, dsn, postgres.Config{}))
	beforetest.CheckLeftovers(t, func(log *slog.Logger) {
		openAt(t, dsn, postgres.Config{Logger: log})
	}, func(statement string) {
		require.NoError(t, second(conn.PgConn().Exec(t.Context(), statement).ReadAll()))
	})
}
