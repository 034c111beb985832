package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/session"
)

const (
	insertLeaseEnds = ` INSERT INTO SCHEMA.watchdog_lease_ends (lease, run_id, attempt) `
	unlessTold      = ` ON CONFLICT DO NOTHING`
	// noticeJudged notes that a session was ended as it was judged, $1, $2 and $4, for the process of its lease.
	noticeJudged = insertLeaseEnds + `SELECT $4::pg_catalog.text, run_id, $2::bigint FROM done
		WHERE $4::pg_catalog.text {<>} ''` + unlessTold

	selectLeaseEnds = `
	SELECT run_id, attempt FROM SCHEMA.watchdog_lease_ends WHERE lease {=} $1 ORDER BY run_id, attempt`

	forgetLeaseEnds = `
	WITH told AS (
		DELETE FROM SCHEMA.watchdog_lease_ends AS e USING unnest($2::pg_catalog.text[], $3::bigint[]) AS t (run_id, attempt)
		WHERE e.lease {=} $1 AND e.run_id {=} t.run_id AND e.attempt {=} t.attempt RETURNING e.run_id, e.attempt
	)
	SELECT e.run_id, e.attempt FROM SCHEMA.watchdog_lease_ends AS e
	WHERE e.lease {=} $1 AND NOT EXISTS (SELECT FROM told WHERE told.run_id {=} e.run_id AND told.attempt {=} e.attempt)
	ORDER BY e.run_id, e.attempt`
)

// Ended implements [session.Leases], in one round trip. It only reads if there is nothing to forget.
func (s *Store) Ended(ctx context.Context, lease string, told []session.AttemptID) ([]session.AttemptID, error) {
	by, statement, arguments := s.do, selectLeaseEnds, []any{lease}
	if len(told) > 0 {
		runIDs, attempts := make([]string, len(told)), make([]int64, len(told))
		for i, a := range told {
			runIDs[i], attempts[i] = a.RunID, int64(a.Attempt)
		}
		by, statement, arguments = s.write, forgetLeaseEnds, append(arguments, runIDs, attempts)
	}
	return ask(ctx, s, by, "ask for ended sessions of lease "+lease+" in",
		pgx.RowToStructByPos[session.AttemptID], statement, arguments...)
}
