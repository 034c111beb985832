package sqlite_test

import (
	"database/sql"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/sqlite"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// TestQueryPlans checks the plans of the statements whose cost must not depend on the active sessions, or on the events
// of other runs. None of them may scan these tables. The index of the unreadable rows may be scanned, because it has no others.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	openAt(t, file)
	db := openPlain(t, file)
	mustExec(t, db, "CREATE INDEX of_the_host ON watchdog_sessions (status, last_event_at)") // SQLite would prefer it
	for name, test := range sqlite.Planned {
		t.Run(name, func(t *testing.T) {
			plan := planOf(t, db, test.Statement, test.Arguments)
			for line := range strings.Lines(plan) {
				unreadable := strings.Contains(line, "USING INDEX watchdog_sessions_unreadable")
				scan := strings.Contains(line, "SCAN main.watchdog_sessions") && !unreadable
				last := strings.TrimSpace(line) == "SCAN main.events" && name == "new" // backwards, and only one row
				scan = scan || strings.Contains(line, "watchdog_outbox") && !strings.Contains(line, "SEARCH")
				if scan || strings.Contains(line, "SCAN s") || strings.Contains(line, "SCAN main.events") && !last {
					t.Errorf("the plan scans the rows: %s", line)
				}
			}
			compareGolden(t, filepath.Join("testdata", "plans", strings.ReplaceAll(name, " ", "_")+".txt"), plan)
		})
	}
}

// planOf returns the plan as indented text. It leaves out the numbers, which change with each version of SQLite.
func planOf(t *testing.T, db *sql.DB, statement string, arguments []any) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, arguments...)
	require.NoError(t, err)
	defer rows.Close()
	var plan strings.Builder
	depths := map[int]int{}
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		depths[id] = depths[parent] + 1
		plan.WriteString(strings.Repeat("  ", depths[id]-1) + detail + "\n")
	}
	require.NoError(t, rows.Err())
	return plan.String()
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
