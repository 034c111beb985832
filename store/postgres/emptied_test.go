package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

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
		assert.Less(t, read, int64(20*rows), "no index is read from end to end for each row")
	}
	assert.Equal(t, []string{fmt.Sprint(rows)}, texts(t, pool,
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
