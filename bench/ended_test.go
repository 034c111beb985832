package bench_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// endsElsewhere is how many runs the fleet has ended.
const endsElsewhere = 200_000

var endedRows = fmt.Sprintf(`
	INSERT INTO watchdog_sessions (run_id, status, created_at, started_at, attempt, reason, ended_at, ended)
	SELECT 'run-' || n, 'cancelled', now(), now(), 1, 'watchdog_idle_timeout', now(), pg_current_xact_id()
	FROM generate_series(1, %d) AS n`, endsElsewhere)

// BenchmarkEnded asks what others ended of the runs of a process that has one, after they have ended 200,000 of other
// processes, with and without a transaction of a stranger's that has been open since before that. Beside it is what a
// host asks by hand, of a column of its own: for all rows that ended since the oldest transaction.
func BenchmarkEnded(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{}) // its writes are not measured
	for _, forgotten := range []bool{false, true} {
		if forgotten {
			newPostgres(b, server).holdTransaction(b) // in another database
		}
		c := newPostgres(b, server)
		l := lease(b, c)
		_, _, err := c.store.Attach(b.Context(), session.Session{RunID: "own", Lease: l.ID})
		must(b, err)
		c.exec(b, "ALTER TABLE watchdog_sessions ADD COLUMN ended xid8")
		c.exec(b, "CREATE INDEX ended ON watchdog_sessions (ended) WHERE ended IS NOT NULL")
		c.exec(b, endedRows)
		c.exec(b, "VACUUM ANALYZE watchdog_sessions")
		b.Run(fmt.Sprintf("with=Ended/forgotten=%v", forgotten), func(b *testing.B) {
			for b.Loop() {
				ended, err := c.store.Ended(b.Context(), l.ID, nil)
				mustBe(b, 0, len(ended), err)
			}
		})
		b.Run(fmt.Sprintf("with=query/forgotten=%v", forgotten), func(b *testing.B) {
			for b.Loop() {
				c.readEnded(b)
			}
		})
	}
}

// readEnded reads which runs ended in a transaction that others may not have seen.
func (c *crowd) readEnded(b *testing.B) {
	b.Helper()
	rows, err := c.db.QueryContext(b.Context(), `SELECT run_id FROM watchdog_sessions
		WHERE ended IS NOT NULL AND ended >= pg_snapshot_xmin(pg_current_snapshot())`)
	must(b, err)
	defer func() { must(b, rows.Close()) }()
	for rows.Next() {
		var runID string
		must(b, rows.Scan(&runID))
	}
	must(b, rows.Err())
}

// holdTransaction begins a transaction that has written, and is forgotten until the end.
func (c *crowd) holdTransaction(b *testing.B) {
	b.Helper()
	tx, err := c.db.BeginTx(context.WithoutCancel(b.Context()), nil)
	must(b, err)
	_, err = tx.ExecContext(b.Context(), "SELECT pg_current_xact_id()")
	must(b, err)
	b.Cleanup(func() { must(b, tx.Rollback()) })
}
