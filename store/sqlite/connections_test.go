package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// TestOneConnection checks that a store opens no second connection, which would read the schema again, for a caller
// that reads and then appends.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"))
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Read(t.Context(), watchdog.AggregateType, "run")
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), watchdog.Event{
		ID: "1", AggregateType: watchdog.AggregateType, AggregateID: "run", Type: "note", Payload: []byte("{}"),
		Timestamp: time.Now(),
	}))
	assert.Equal(t, 1, s.Connections())
}
