package sqlite_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/internal/beforetest"
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
}
