package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/session"
)

// createLeaseEndTable makes the attempts whose rows were in a lease when another process than that of the lease ended
// them, or took them over. A row is written in that transaction, deleted when the lease's process was told of it, and
// goes with the lease.
//
// Rejected: to ask watchdog_sessions what ended since a transaction. Every keeper read what the whole fleet had ended,
// and as long as any transaction of the server stayed open the same again and again.
const createLeaseEndTable = `
	CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_lease_ends (
		lease varchar(255) COLLATE pg_catalog."C" NOT NULL REFERENCES SCHEMA.watchdog_leases (id) ON DELETE CASCADE,
		run_id varchar(255) COLLATE pg_catalog."C" NOT NULL,
		attempt bigint NOT NULL,
		PRIMARY KEY (lease, run_id, attempt)
	) WITH (autovacuum_vacuum_scale_factor = 0.02)`

// createLeaseEnds is version 6.
func createLeaseEnds(t *transaction) error {
	for _, statement := range []string{limitLocks, createLeaseEndTable} {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("create watchdog_lease_ends: %w", err)
		}
	}
	return nil
}

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
