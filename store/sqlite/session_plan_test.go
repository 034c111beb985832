package sqlite_test

import (
	"database/sql"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed62658d38/watchdog/session"
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
	listed := []any{1, "run", 3, 4, "parent", "host", "reason"}
	for name, test := range map[string]struct {
		statement string
		arguments []any
	}{
		"stalled": {sqlite.SelectStalled, []any{1, 2, 3, 4, 5, "run", 7, 8}},
		"ended":   {sqlite.SelectEnded, []any{"lease-1"}},
		"freshen": {sqlite.FreshenBusy, []any{"[]", "lease"}},
		"others":  {sqlite.FreshenOthers, []any{"[]", "lease"}},
		"states":  {sqlite.FreshenStates, []any{"[]", "lease"}},
		"leased":  {sqlite.SelectLeased, []any{"lease", 1}},
		"count":   {sqlite.CountLeased, []any{"lease"}},
		"leave":   {sqlite.LeaveRows, []any{"[]", "lease", "", true, "4 0 lease"}},
		"judge":   {sqlite.JudgeRow, []any{"run", 1, "", "lease", 1, "by", "now", 1}},
		"gone":    {sqlite.SelectGone, []any{"[]"}},
		"cancel":  {sqlite.CancelRow, []any{"run", 1, "", "reason", 0, false, "by", "key", 1}},
		"end":     {sqlite.EndRow, []any{"run", 1, "", "finished", "", nil}},
		"select": {sqlite.SelectSelection, []any{
			"runtime_control", "run", "[]", "2026-03-04 12:00:00.000000", "[]", "2026-03-04 12:00:00.000000", 1,
		}},
		"many":        {sqlite.SelectMany, []any{"[]"}},
		"insert":      {sqlite.InsertRows, []any{"[]"}},
		"outbox":      {sqlite.InsertOutbox, []any{"[]"}},
		"stored":      {sqlite.SelectStored, []any{"[]"}},
		"layers":      {sqlite.SelectLayers, []any{"run"}},
		"new":         {sqlite.SelectNew, []any{1, "event", "run"}},
		"put notice":  {sqlite.PutNotice, []any{"event", "type", "run", "cancel"}},
		"due":         {sqlite.SelectDue, []any{"now", 100}},
		"claim due":   {sqlite.ClaimDue, []any{"now", 100, "later"}},
		"finish":      {sqlite.DeleteNotices, []any{"[]"}},
		"delay":       {sqlite.DelayNotice, []any{"event", 1, "later", "now", 1, 2}},
		"end early":   {sqlite.EndEarly, []any{"now", "far"}},
		"due start":   {sqlite.SelectDueStart, []any{1}},
		"claim start": {sqlite.ClaimStart, []any{"run", 1}},
		"put off":     {sqlite.PutOffStart, []any{"run", 1, "key", 1, 1}},
		"list":        {sqlite.SelectList(session.ListQuery{}), listed},
		"list live":   {sqlite.SelectList(session.ListQuery{Live: true}), listed},
		"list ended":  {sqlite.SelectList(session.ListQuery{Ended: true, Reason: "reason"}), listed},
		"list parent": {sqlite.SelectList(session.ListQuery{Live: true, Parent: "run", Host: "host"}), listed},
		"list host":   {sqlite.SelectList(session.ListQuery{Live: true, Host: "host"}), listed},
	} {
		t.Run(name, func(t *testing.T) {
			plan := planOf(t, db, test.statement, test.arguments)
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
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	depths := map[int]int{}
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		depths[id] = depths[parent] + 1
		plan.WriteString(strings.Repeat("  ", depths[id]-1) + detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the plan is\n%s, want\n%s", got, want)
	}
}
