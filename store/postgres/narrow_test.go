package postgres_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/postgres"
)

// TestNarrowIDs protects a host whose events table has room for UUIDs only: it learns at the start that layers do not
// fit, and not from the first that is lost.
func TestNarrowIDs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind   string
		warned bool
	}{
		"of 36 characters":             {"varchar(36)", true},
		"of one character too few":     {"varchar(254)", true},
		"as long as ours":              {"varchar(255)", false},
		"of any length":                {"varchar", false},
		"of any length, in their text": {"text", false},
	} {
		t.Run("a column "+name, func(t *testing.T) {
			dsn := newDSN(t)
			pool := hostPool(t, dsn)
			mustExec(t, pool, strings.Replace(tableWith(), "aggregate_id varchar(255)", "aggregate_id "+test.kind, 1))
			var log bytes.Buffer
			s := openAt(t, dsn, postgres.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, s.Append(t.Context(), numbered(1)))
			assert.Equal(t, test.warned, strings.Contains(log.String(), "too short for layers"), log.String())
			if test.warned {
				assert.Contains(t, log.String(), "TYPE varchar(255)")
			}
		})
	}
}
