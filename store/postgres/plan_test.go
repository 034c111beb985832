package postgres_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fill writes active sessions with an event in the last five minutes, and stalled ones. One in ten has a threshold of
// its own.
func fill(tb testing.TB, pool *pgxpool.Pool, active, stalled int) {
	tb.Helper()
	mustExec(tb, pool, fmt.Sprintf(`
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, threshold, started_at, host, attempt)
		SELECT 'run-' || lpad(n::text, 8, '0'), 'active', now() - interval '1 day', now() - random() * interval '5 minutes',
			CASE WHEN n %% 10 = 0 THEN 3600000000000 ELSE 0 END, now() - interval '1 day', 'host-' || n %% 7, 1
		FROM generate_series(1, %d) AS n`, active),
		fmt.Sprintf(`
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, threshold, started_at, host, attempt)
		SELECT 'stalled-' || n, 'active', now() - interval '1 day', now() - interval '2 hours' - n * interval '1 second',
			CASE WHEN n %% 10 = 0 THEN 3600000000000 ELSE 0 END, now() - interval '1 day', 'host-1', 1
		FROM generate_series(1, %d) AS n`, stalled),
		"VACUUM ANALYZE watchdog_sessions")
}

// fillLeased writes leases whose processes live, and active sessions of theirs. Few are quiet, and of these one in
// three is silent for long. One in ten has a threshold of its own.
func fillLeased(tb testing.TB, pool *pgxpool.Pool, leases, active int) {
	tb.Helper()
	mustExec(tb, pool, fmt.Sprintf(`
		INSERT INTO watchdog_leases (id, host, promise, beat, clock, vouched, renewed_at)
		SELECT 'lease-' || n, 'host-' || n, 10000000000, 1000, 86400000000000, 86399000000000, now()
		FROM generate_series(1, %d) AS n`, leases),
		fmt.Sprintf(`
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, threshold, started_at, host,
			attempt, lease, activity, quiet_since, quiet_due)
		SELECT 'leased-' || lpad(n::text, 8, '0'), 'active', now() - interval '1 day', now() - interval '1 day',
			own, now() - interval '1 day', 'host-' || 1 + n %% %[1]d, 1, 'lease-' || 1 + n %% %[1]d,
			activity, CASE WHEN quiet AND own = 0 THEN activity END, CASE WHEN quiet AND own > 0 THEN activity + own END
		FROM generate_series(1, %[2]d) AS n, LATERAL (SELECT n %% 500 = 0 AS quiet) AS q, LATERAL (
			SELECT CASE WHEN n %% 10 = 0 AND n %% 1000 <> 0 THEN 3600000000000 ELSE 0 END AS own,
				CASE WHEN quiet THEN 86000000000000 - n %% 3 * 7200000000000 ELSE 86399000000000 END AS activity) AS a`,
			leases, active),
		"VACUUM ANALYZE watchdog_sessions", "VACUUM ANALYZE watchdog_leases")
}

// explain returns the plan of a statement, without what differs from run to run.
func explain(tb testing.TB, pool *pgxpool.Pool, statement string, arguments []any) string {
	tb.Helper()
	arguments = append([]any{pgx.QueryExecModeCacheDescribe}, arguments...)
	lines := texts(tb, pool, "EXPLAIN (COSTS OFF) "+statement, arguments...)
	return timestamp.ReplaceAllString(strings.Join(lines, "\n")+"\n", "'<time>'")
}

// A timestamp is a time, or a number of microseconds since 1970.
var timestamp = regexp.MustCompile(`'(\d{4}-[^']*|1\d{15})'`)

// fullScan is a scan of a large table. A search for stalled sessions looks at all leases.
const fullScan = `Seq Scan on (watchdog_sessions|events|watchdog_spend|watchdog_slices|watchdog_outbox)`

// fillSpend writes a scope for each of a thousand tenants, with ten windows each, and many slices.
func fillSpend(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	mustExec(tb, pool, `
		INSERT INTO watchdog_spend (scope, window_name) SELECT 'tenant-' || n, CASE WHEN w > 0 THEN 'day ' || w ELSE '' END
		FROM generate_series(1, 1000) AS n, generate_series(0, 10) AS w`, `
		INSERT INTO watchdog_slices (id, scope, window_name, taken_at, granted_input_tokens, granted_output_tokens,
			granted_tokens, granted_cost, granted_requests, granted_turns, granted_tool_calls)
		SELECT 'slice-' || n, 'tenant-' || 1 + n % 1000, 'day ' || 1 + n % 10, now(), 0, 0, 0, 0, 1, 0, 0
		FROM generate_series(1, 20000) AS n`, "VACUUM ANALYZE watchdog_spend", "VACUUM ANALYZE watchdog_slices")
}

// fillOutbox writes notices that are delayed, and some that are due.
func fillOutbox(tb testing.TB, pool *pgxpool.Pool, delayed, due int) {
	tb.Helper()
	mustExec(tb, pool, fmt.Sprintf(`
		INSERT INTO watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at, due_at, tries)
		SELECT 'end-' || n, 'runtime_control', 'run-' || n, 'runtime.watchdog.cancel', now() - interval '1 hour',
			CASE WHEN n > %[1]d THEN '-infinity' ELSE now() + (1 + n::bigint * 7919 %% 1000) * interval '1 minute' END, n %% 7
		FROM generate_series(1, %[1]d + %[2]d) AS n`, delayed, due), "VACUUM ANALYZE watchdog_outbox")
}

// No statement scans the active sessions, or the outbox.
func TestQueryPlans(t *testing.T) {
	if racing.Enabled {
		t.Skip("runs in the plain tests only: the plans are those of the server")
	}
	t.Parallel()
	s, pool := openNew(t, postgres.Config{})
	var fresh []session.Freshness
	var ends []session.Ending
	for i := range 10_000 {
		fresh = append(fresh, session.Freshness{RunID: fmt.Sprintf("run-%08d", i), Attempt: 1})
		ends = append(ends, session.Ending{RunID: fmt.Sprintf("run-%08d", i), Attempt: 1, Status: session.Finished})
	}
	// The statistics are of the whole table and not of a sample, so that the plans are the same each time.
	mustExec(t, pool, "ALTER TABLE watchdog_sessions ALTER COLUMN silent SET STATISTICS 10000")
	fill(t, pool, 100_000, 50)
	fillLeased(t, pool, 1000, 10_000)
	mustExec(t, pool, "UPDATE watchdog_sessions SET parent = 'parent-' || host WHERE run_id LIKE '%7'",
		"VACUUM ANALYZE watchdog_sessions")
	mustExec(t, pool, `INSERT INTO events
		SELECT n::text, 'runtime_control', 'run-' || n, 'x', '{}', now() FROM generate_series(1, 10000) AS n`,
		"VACUUM ANALYZE events")
	fillSpend(t, pool)
	fillOutbox(t, pool, 10_000, 10_000)
	page, err := s.Stalled(t.Context(), session.Query{Threshold: threshold, Limit: 1})
	require.NoError(t, err)
	ten := session.Query{Threshold: threshold, MinAge: minAge, Limit: 10}
	next := ten
	next.After = page.Next
	judged := session.Session{RunID: "stalled-1", Attempt: 1, LastEventAt: noon}
	statements := s.Planned(judged, ten, next, fresh, ends)
	var all strings.Builder
	for _, statement := range statements {
		plan := explain(t, pool, statement.Statement, statement.Arguments)
		if !statement.Long {
			fmt.Fprintf(&all, "-- %s\n%s\n", statement.Name, plan)
		}
		require.NotRegexp(t, fullScan, plan, statement.Name)
		if strings.HasPrefix(statement.Name, "list") {
			require.NotContains(t, plan, "Sort", statement.Name)
		}
	}
	mustExec(t, pool, "DELETE FROM watchdog_sessions WHERE run_id LIKE 'stalled%'", "VACUUM ANALYZE watchdog_sessions")
	plan := explain(t, pool, statements[0].Statement, statements[0].Arguments)
	fmt.Fprintf(&all, "-- find none\n%s", plan)
	require.Contains(t, plan, "Index Scan using watchdog_sessions_silent")
	require.Contains(t, plan, "Index Scan using watchdog_sessions_due")
	require.Contains(t, plan, "Index Scan using watchdog_sessions_quiet_since")
	require.Contains(t, plan, "Index Scan using watchdog_sessions_quiet_due")
	require.NotRegexp(t, fullScan, plan)
	assertGolden(t, pool, all.String())
}

func first[A, B any](a A, _ B) A         { return a }
func second[A, B any](_ A, b B) B        { return b }
func third[A, B, C any](_ A, _ B, c C) C { return c }

// Select reads a few of a hundred thousand events by an index, and so do Layers and the poll of one run. The plans are
// the same before and after the table is analyzed.
func TestEventPlans(t *testing.T) {
	t.Parallel()
	s, pool := openNew(t, postgres.Config{})
	mustExec(t, pool, `INSERT INTO events
		SELECT 'event-' || n, 'runtime_control', CASE WHEN n % 100 = 0 THEN 'run-' || n ELSE 'run-1' END, 'type-' || n % 9,
			CASE WHEN n % 50 = 0 THEN json_build_object('parent', 'run-' || n % 1000) ELSE '{"n":1}' END,
			timestamptz '2026-03-04 12:00:00Z' + n * interval '1 second' FROM generate_series(1, 100000) AS n`)
	late := noon.Add(99_990 * time.Second)
	selection := watchdog.Selection{
		AggregateType: watchdog.AggregateType, AggregateID: "run-1", Since: late, LatestOf: []string{"type-1"},
		IDs: []string{"event-1", "event-99", "event-100"},
	}
	events, err := s.Select(t.Context(), selection)
	require.NoError(t, err)
	require.Len(t, events, 10+1+2)
	var many []watchdog.Selection
	for range 128 {
		many = append(many, selection)
	}
	assertIndexed := func(statement string, arguments []any) {
		t.Helper()
		plan := explain(t, pool, statement, arguments)
		require.NotContains(t, plan, "Seq Scan")
		require.Contains(t, plan, "Index Scan using events_pkey")
		require.Contains(t, plan, "Index Scan Backward using watchdog_events_aggregate")
	}
	for _, step := range []string{"SELECT", "VACUUM ANALYZE events"} {
		mustExec(t, pool, step)
		assertIndexed(s.SelectStatement(selection))
		assertIndexed(s.SelectStatement(many...))
	}
	plan := explain(t, pool, first(s.LayersStatement("run-50")), second(s.LayersStatement("run-50")))
	require.Contains(t, plan, "watchdog_events_parent")
	require.NotContains(t, plan, "Seq Scan")
	plan = explain(t, pool, first(s.FollowStatement("run-500", "900")), second(s.FollowStatement("run-500", "900")))
	require.Contains(t, plan, "watchdog_events_aggregate")
	plan = explain(t, pool, first(s.FollowStatement("", "900")), second(s.FollowStatement("", "900")))
	require.Contains(t, plan, "One-Time Filter", "without new transactions the table is skipped")
}

// assertGolden compares with the plans of the same server version, because other versions print them differently.
func assertGolden(t *testing.T, pool *pgxpool.Pool, got string) {
	t.Helper()
	major := texts(t, pool, "SELECT (current_setting('server_version_num')::int / 10000)::text")[0]
	file := filepath.Join("testdata", "plans-"+major+".txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("there are no plans of PostgreSQL %s to compare with:\n%s", major, got)
		return
	}
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// Rows are written by look-ups in the right index, or in one pass, also while the planner believes that there are none.
func TestEmptiedTable(t *testing.T) {
	t.Parallel()
	const rows = 5000
	dsn := newDSN(t)
	openAt(t, dsn, postgres.Config{})
	pool := hostPool(t, dsn)
	fillLeased(t, pool, 1, 1000)
	mustExec(t, pool, "DELETE FROM watchdog_sessions", "VACUUM (TRUNCATE off, ANALYZE) watchdog_sessions", fmt.Sprintf(`
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host,
			attempt, lease)
		SELECT 'run-' || n, 'active', now(), now(), now(), 'host-1', 1, 'lease-1'
		FROM generate_series(1, %d) AS n`, rows))
	require.Equal(t, []string{"0"}, texts(t, pool, `SELECT reltuples::text FROM pg_class WHERE relname = 'watchdog_sessions'
		AND relpages > 0`), "the planner believes that there are none")
	var fresh []session.Freshness
	var ends []session.Ending
	for i := range rows {
		runID := fmt.Sprint("run-", i+1)
		fresh = append(fresh, session.Freshness{RunID: runID, Attempt: 1, Activity: time.Hour})
		ends = append(ends, session.Ending{RunID: runID, Attempt: 1, Status: session.Finished})
	}
	for _, write := range []func(s *postgres.Store) (session.Skipped, error){
		func(s *postgres.Store) (session.Skipped, error) { return s.Freshen(t.Context(), "lease-1", fresh) },
		func(s *postgres.Store) (session.Skipped, error) { return s.End(t.Context(), ends) },
	} {
		before := blocksOfIndexes(t, dsn)
		s, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		require.NoError(t, err)
		_, err = write(s)
		require.NoError(t, err)
		require.NoError(t, s.Close()) // its connections say what they have read when they end
		var read int64
		require.Eventually(t, func() bool {
			read = blocksOfIndexes(t, dsn) - before
			return read >= rows // each row that is written is added to an index, or looked up
		}, time.Minute, 10*time.Millisecond)
		require.Less(t, read, int64(20*rows), "no index is read from end to end for each row")
	}
	require.Equal(t, []string{fmt.Sprint(rows)}, texts(t, pool,
		"SELECT count(*)::text FROM watchdog_sessions WHERE status = 'finished'"))
}

func blocksOfIndexes(t *testing.T, dsn string) (blocks int64) {
	t.Helper()
	pool := hostPool(t, dsn)
	defer pool.Close()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT sum(idx_blks_hit + idx_blks_read)::bigint
		FROM pg_statio_user_indexes WHERE relname = 'watchdog_sessions'`).Scan(&blocks))
	return blocks
}
