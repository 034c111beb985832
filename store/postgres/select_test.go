package postgres_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"gotest.tools/v3/golden"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/testrun"
	"github.com/seed62658d38/watchdog/store/postgres"
)

func TestSelectFarTimes(t *testing.T) {
	t.Parallel()
	s := setups[opened](t)
	require.NoError(t, s.Append(t.Context(), numbered(1)))
	for year, want := range map[int]int{-400_000: 1, -1: 1, 1: 1, 9999: 0, 10_000: 0, 400_000: 0} {
		selection := since1970("run-1")
		selection.Since = time.Date(year, 2, 3, 4, 5, 6, 7, time.UTC)
		events, err := s.Select(t.Context(), selection)
		require.NoError(t, err, year)
		require.Len(t, events, want, year)
		selection.LatestOf = []string{event.Warning}
		events, err = s.Select(t.Context(), selection)
		require.NoError(t, err, year)
		require.Len(t, events, 1, year)
	}
}

// The server reads what an array was made of, in every mode of a pool.
func TestArray(t *testing.T) {
	wanted := []string{
		"plain", "", "NULL", "null", "{}", "{a,b}", "a,b", `"`, `\`, `\"`, `a "quoted" \ text`, "'", "''", " around ",
		"two\nlines\tand a tab", "é…🙂", `{"n":"\u0000"}`,
	}
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	inside := time.Date(2026, 3, 4, 12, 0, 0, 1999, time.FixedZone("", 3600))
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		pool := hostPool(t, newDSN(t), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
		require.Empty(t, texts(t, pool, "SELECT unnest($1::text[])", postgres.ArrayOfTexts()))
		require.Equal(t, wanted, texts(t, pool, "SELECT unnest($1::text[])", postgres.ArrayOfTexts(wanted...)), mode)
		require.Equal(t, []string{"a", "none", "b"}, texts(t, pool, "SELECT coalesce(n, 'none') FROM unnest($1::text[]) AS n",
			postgres.ArrayOrNull("a", "", "b")), mode)
		require.Equal(t, []string{"1", "-9223372036854775808"}, texts(t, pool, "SELECT unnest($1::bigint[])::text",
			postgres.ArrayOfNumbers(1, math.MinInt64)), mode)
		require.Equal(t, []string{"0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999", "2026-03-04 11:00:00.000001"},
			texts(t, pool, `SELECT to_char(unnest($1::timestamptz[]) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')`,
				postgres.ArrayOfTimes(first, last, inside)), mode)
	}
}

var (
	statementsOf = regexp.MustCompile("(?s)```sql\n(.*?)```")
	comment      = regexp.MustCompile("(?m)^--.*$")
)

// documented returns the statements of a section of a page for operators.
func documented(t *testing.T, page, section string) (statements []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if os.IsNotExist(err) {
		t.Skip("the document is in another module:", err)
	}
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, found, "%s has no section %q", page, section)
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, block := range statementsOf.FindAllStringSubmatch(rest, -1) {
		for statement := range strings.SplitSeq(comment.ReplaceAllString(block[1], ""), ";") {
			if statement = strings.TrimSpace(statement); statement != "" {
				statements = append(statements, statement)
			}
		}
	}
	require.NotEmpty(t, statements)
	return statements
}

// What the pages for operators say works.
func TestOperations(t *testing.T) {
	t.Parallel()
	t.Run("the rights are enough, and each is needed", func(t *testing.T) {
		grants := documented(t, "operations.md", "Rights")
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		cfg := postgres.Config{Schema: "watchdog"}
		openAt(t, dsn, cfg)
		mustExec(t, pool, "DROP ROLE IF EXISTS app", "CREATE ROLE app LOGIN")
		t.Cleanup(func() { mustExec(t, pool, "DROP OWNED BY app", "DROP ROLE app") })
		asApp := strings.Replace(dsn, "user=postgres", "user=app", 1)
		for _, grant := range grants {
			if !strings.Contains(grant, "DATABASE") { // which has another name, and everybody may connect
				require.Error(t, second(postgres.Open(t.Context(), asApp, cfg)), "before "+grant)
				mustExec(t, pool, grant)
			}
		}
		s := openAt(t, asApp, cfg).Patient()
		cancelsAtOnce(t, s)
	})
	for section, page := range map[string]string{
		"Autovacuum": "operations.md", "What to alert on": "operations-alerts.md",
	} {
		t.Run("the queries of "+section, func(t *testing.T) {
			dsn := newDSN(t)
			openAt(t, dsn, postgres.Config{})
			mustExec(t, hostPool(t, dsn), documented(t, page, section)...)
		})
	}
	t.Run("the query for rows that are behind", func(t *testing.T) {
		dsn := newDSN(t)
		s := openAt(t, dsn, postgres.Config{})
		l := begin(t, s, lease1)
		l.Beat, l.Clock, l.Covered = 2, 5*time.Second, 5*time.Second
		l.Behind = []session.RowBehind{{RunID: "run-1", Attempt: 3, Written: time.Second}}
		require.NoError(t, s.RenewLease(t.Context(), l))
		for _, statement := range documented(t, "operations-alerts.md", "What to alert on") {
			if strings.Contains(statement, "behind_seconds") {
				require.Equal(t, []string{"host-1 run-1 3 4"}, texts(t, hostPool(t, dsn), "SELECT concat_ws(' ', host, run, attempt, "+
					"round(behind_seconds)) FROM ("+statement+") AS found"))
				return
			}
		}
		require.Fail(t, "there is no such query")
	})
	t.Run("ends are read for an alert manager", func(t *testing.T) {
		s, pool := openNew(t)
		e := cancelOf("end-1", "run-1").Events[0]
		e.Timestamp = time.Now()
		require.NoError(t, s.Append(t.Context(), e))
		ends := documented(t, "operations-alerts.md", "An alert manager")
		require.Equal(t, []string{"end-1 run-1"}, texts(t, pool, "SELECT id || ' ' || run FROM ("+ends[0]+") AS ends"))
	})
	t.Run("retention takes old sessions that have ended, all of their events, and what was read", func(t *testing.T) {
		s, pool := openNew(t)
		old := time.Now().Add(-100 * 24 * time.Hour)
		for _, run := range []string{"old", "old but active", "ended today", "old without a session", "mixed without a session"} {
			e := cancelOf("cancel of "+run, run).Events[0]
			e.Timestamp = old
			require.NoError(t, s.Append(t.Context(), e))
			if !strings.HasSuffix(run, "without a session") {
				attach(t, s, run)
			}
		}
		for run, claim := range map[string]time.Duration{"to be started": time.Hour, "started": time.Hour, "not to be": 0} {
			c := cancelOf("cancel of "+run, run)
			c.Events[0].Timestamp, c.StartFor = old, claim
			require.NoError(t, second(s.Cancel(t.Context(), attach(t, s, run), c)))
		}
		_, err := s.End(t.Context(), []session.Ending{{
			RunID: "started", Attempt: attach(t, s, "started").Attempt, Status: session.Finished,
		}})
		require.NoError(t, err)
		late := cancelOf("late", "mixed without a session").Events[0]
		late.Timestamp = time.Now()
		theirs := cancelOf("theirs", "old").Events[0]
		theirs.AggregateType, theirs.Timestamp = "their own", old
		require.NoError(t, s.Append(t.Context(), late, theirs))
		for _, run := range []string{"old", "ended today"} {
			_, err := s.End(t.Context(), []session.Ending{{RunID: run, Attempt: 1, Status: session.Finished}})
			require.NoError(t, err)
		}
		mustExec(t, pool, `UPDATE watchdog_sessions SET last_event_at = now() - interval '100 days',
			created_at = now() - interval '100 days', ended_at = ended_at - interval '100 days' * (run_id <> 'ended today')::int`)
		mustExec(t, pool, documented(t, "operations.md", "Retention")...)
		left := []string{"ended today", "mixed without a session", "old but active", "to be started"}
		require.Equal(t, left, slices.Compact(texts(t, pool, `SELECT aggregate_id FROM events
			WHERE aggregate_type = $1 ORDER BY 1`, event.AggregateType)))
		require.Equal(t, []string{"ended today", "old but active", "to be started"},
			texts(t, pool, "SELECT run_id FROM watchdog_sessions ORDER BY 1"))
		require.Len(t, texts(t, pool, "SELECT id FROM events WHERE aggregate_type = 'their own'"), 1)
	})
}

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
const fullScan = `Seq Scan on (watchdog_sessions|events)`

// No statement scans the active sessions.
func TestQueryPlans(t *testing.T) {
	if testrun.Racing {
		t.Skip("runs in the plain tests only: the plans are those of the server")
	}
	t.Parallel()
	s, pool := openNew(t)
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
	s, pool := openNew(t)
	mustExec(t, pool, `INSERT INTO events
		SELECT 'event-' || n, 'runtime_control', CASE WHEN n % 100 = 0 THEN 'run-' || n ELSE 'run-1' END, 'type-' || n % 9,
			CASE WHEN n % 50 = 0 THEN json_build_object('parent', 'run-' || n % 1000) ELSE '{"n":1}' END,
			timestamptz '2026-03-04 12:00:00Z' + n * interval '1 second' FROM generate_series(1, 100000) AS n`)
	late := noon.Add(99_990 * time.Second)
	selection := event.Selection{
		AggregateType: event.AggregateType, AggregateID: "run-1", Since: late, LatestOf: []string{"type-1"},
		IDs: []string{"event-1", "event-99", "event-100"},
	}
	events, err := s.Select(t.Context(), selection)
	require.NoError(t, err)
	require.Len(t, events, 10+1+2)
	var many []event.Selection
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
}

// assertGolden compares with the plans of the same server version, because other versions print them differently.
func assertGolden(t *testing.T, pool *pgxpool.Pool, got string) {
	t.Helper()
	major := texts(t, pool, "SELECT (current_setting('server_version_num')::int / 10000)::text")[0]
	file := "plans-" + major + ".txt"
	if _, err := os.Stat(golden.Path(file)); errors.Is(err, fs.ErrNotExist) && !golden.FlagUpdate() {
		t.Logf("there are no plans of PostgreSQL %s to compare with:\n%s", major, got)
		return
	}
	golden.Assert(t, got, file)
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
		require.NoError(t, second(write(s)))
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
