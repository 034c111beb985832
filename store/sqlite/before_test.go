package sqlite_test

import (
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/internal/beforetest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// TestBefore opens a database that an older version wrote.
func TestBefore(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	db := openPlain(t, file)
	written, err := os.ReadFile("testdata/before.sql")
	require.NoError(t, err)
	mustExec(t, db, string(written))
	beforetest.Check(t, openAt(t, file))
	beforetest.CheckLeftovers(t, func(log *slog.Logger) {
		s, err := sqlite.Config{Logger: log}.Open(t.Context(), file)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}, func(statement string) { mustExec(t, db, statement) })
}
