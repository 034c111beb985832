package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The rows of the benchmark: one of a hundred is live, in one of ten leases, and they were made a second apart.
const (
	benchSessions = 1_000_000

	sqliteSessions = `
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d),
		made (i, at) AS (SELECT i, strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', (i - %[1]d) || ' seconds') || '000' FROM n)
	INSERT INTO watchdog_sessions (run_id, parent, status, created_at, last_event_at, started_at, host, attempt, reason,
		threshold, lease, leased, activity, ended, state)
	SELECT 'run-' || i, '', CASE WHEN i %% 100 = 0 THEN 'active' ELSE 'finished' END, at, at, at, 'worker-' || (i %% 100), 1,
		CASE WHEN i %% 100 <> 0 THEN 'complete' ELSE '' END, 0, CASE WHEN i %% 100 = 0 THEN 'lease-' || (i / 100 %% 10) END,
		CASE WHEN i %% 100 = 0 THEN 1 END, CASE WHEN i %% 100 = 0 THEN 1 END, CASE WHEN i %% 100 <> 0 THEN i END,
		CASE WHEN i %% 100 = 0 THEN '{"phase":"compiling"}' END FROM made`
	sqliteLeases = `
	INSERT INTO watchdog_leases (id, host, promise, beat, clock, vouched, renewed_at)
	SELECT 'lease-' || value, 'worker', 10000000000, 1, 5, 5, strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'
	FROM json_each('[0,1,2,3,4,5,6,7,8,9]')`

	postgresSessions = `
	INSERT INTO watchdog_sessions (run_id, parent, status, created_at, last_event_at, started_at, host, attempt, reason,
		threshold, lease, leased, activity, ended, state)
	SELECT 'run-' || i, '', CASE WHEN i %% 100 = 0 THEN 'active' ELSE 'finished' END, at, at, at, 'worker-' || (i %% 100), 1,
		CASE WHEN i %% 100 <> 0 THEN 'complete' ELSE '' END, 0, CASE WHEN i %% 100 = 0 THEN 'lease-' || (i / 100 %% 10) END,
		CASE WHEN i %% 100 = 0 THEN 1 END, CASE WHEN i %% 100 = 0 THEN 1 END,
		CASE WHEN i %% 100 <> 0 THEN pg_current_xact_id() END, CASE WHEN i %% 100 = 0 THEN '{"phase":"compiling"}'::json END
	FROM (SELECT i, now() + (i - %[1]d) * interval '1 second' AS at FROM generate_series(1, %[1]d) AS i) AS made`
	postgresLeases = `
	INSERT INTO watchdog_leases (id, host, promise, beat, clock, vouched, renewed_at)
	SELECT 'lease-' || i, 'worker', 10000000000, 1, 5, 5, now() FROM generate_series(0, 9) AS i`
)

// BenchmarkSessions measures the program from its start to its end, when it has printed a page of 1,000,000 sessions.
func BenchmarkSessions(b *testing.B) {
	b.Run("store=sqlite", func(b *testing.B) {
		s := sqliteStore(b)
		s.exec(sqliteLeases)
		s.exec(fmt.Sprintf(sqliteSessions, benchSessions))
		benchSessionsOf(b, s)
	})
	b.Run("store=postgres", func(b *testing.B) {
		s := openStore(b, postgresServer.DSN(b))
		s.exec(postgresLeases)
		s.exec(fmt.Sprintf(postgresSessions, benchSessions))
		s.exec("VACUUM ANALYZE watchdog_sessions")
		benchSessionsOf(b, s)
	})
}

func benchSessionsOf(b *testing.B, s testStore) {
	b.Helper()
	for _, flags := range []string{"", "--ended", "--host worker-7"} {
		b.Run("page="+strings.ReplaceAll("first "+flags, " ", "_"), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				args := append([]string{"sessions", "--store", s.url}, strings.Fields(flags)...)
				output, err := programCmd(b, nil, args...).Output()
				took = append(took, time.Since(began))
				require.NoError(b, err)
				require.Equal(b, 51, strings.Count(string(output), "\n"))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "median-ms")
		})
	}
}
