package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// A putter is a store with a pool of another program, which writes to the store's tables directly.
type putter struct {
	*postgres.Store
	pool *pgxpool.Pool
}

const putRow = `
	INSERT INTO watchdog_sessions
		(run_id, parent, status, created_at, last_event_at, threshold, started_at, host, attempt, resumes, reason)
	SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::bigint[],
		$7::timestamptz[], $8::text[], $9::bigint[], $10::bigint[], $11::text[])
	ON CONFLICT (run_id) DO UPDATE SET
		status = excluded.status, created_at = excluded.created_at, last_event_at = excluded.last_event_at,
		threshold = excluded.threshold, attempt = excluded.attempt, parent = excluded.parent,
		resumes = excluded.resumes, reason = excluded.reason`

func (p putter) Put(ctx context.Context, rows ...session.Session) error {
	var runIDs, parents, statuses, hosts, reasons []string
	var created, started []time.Time
	var last []*time.Time
	var thresholds, attempts, resumes []int64
	for _, s := range rows {
		runIDs, parents = append(runIDs, s.RunID), append(parents, s.Parent)
		statuses, thresholds = append(statuses, string(s.Status)), append(thresholds, int64(s.Threshold))
		hosts, reasons = append(hosts, s.Host), append(reasons, string(s.Reason))
		created, started = append(created, s.CreatedAt), append(started, s.StartedAt)
		attempts, resumes = append(attempts, int64(s.Attempt)), append(resumes, int64(s.Resumes))
		if s.LastEventAt.IsZero() {
			last = append(last, nil)
		} else {
			last = append(last, &s.LastEventAt)
		}
	}
	_, err := p.pool.Exec(ctx, putRow,
		runIDs, parents, statuses, created, last, thresholds, started, hosts, attempts, resumes, reasons)
	return err
}

func (p putter) Spoil(ctx context.Context, runID string) error {
	_, err := p.pool.Exec(ctx, `UPDATE watchdog_sessions SET last_event_at = 'infinity' WHERE run_id = $1`, runID)
	return err
}

// emptyTables deletes all rows. A table of more than a few pages is made anew: nothing vacuums it, and each later look
// would pass over all the rows that it once had.
const emptyTables = `DO $$
	DECLARE one text;
	BEGIN
		FOREACH one IN ARRAY ARRAY['events', 'watchdog_sessions', 'watchdog_leases', 'watchdog_lease_ends', 'watchdog_spend',
			'watchdog_slices', 'watchdog_outbox']
		LOOP
			EXECUTE CASE WHEN pg_relation_size(one) > 65536 THEN 'TRUNCATE ' ELSE 'DELETE FROM ' END || one;
		END LOOP;
	END $$`

// emptied returns the store after it deleted all rows, for the next rule. Creating new tables takes longer than most
// rules.
func (p putter) emptied(tb testing.TB) putter {
	tb.Helper()
	mustExec(tb, p.pool, emptyTables)
	return p
}

// Close does nothing, because the next rule uses the store again. The store is closed when the test ends.
func (p putter) Close() error { return nil }

// hurried returns a putter whose store polls often while it is followed.
func hurried(s *postgres.Store, pool *pgxpool.Pool) putter {
	s.SetFollowPause(10 * time.Millisecond)
	return putter{s, pool}
}

// newPutter opens a store, and a pool with direct connections to its database.
func newPutter(tb testing.TB, dsn, direct string) putter {
	tb.Helper()
	return newPutterWith(tb, dsn, direct, postgres.Config{})
}

func newPutterWith(tb testing.TB, dsn, direct string, cfg postgres.Config) putter {
	tb.Helper()
	return hurried(openAt(tb, dsn, cfg), hostPool(tb, direct))
}
