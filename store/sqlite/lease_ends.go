package sqlite

import (
	"context"
	"database/sql"

	"github.com/seed62658d38/watchdog/session"
)

// dropLeaseEnds has the ends go with the lease, also where a program deletes it that does not know them. SQLite would
// heed a foreign key only for programs that ask for it.
const dropLeaseEnds = `
	CREATE TRIGGER IF NOT EXISTS main.watchdog_lease_ends_untold AFTER DELETE ON watchdog_leases BEGIN
		DELETE FROM watchdog_lease_ends WHERE lease = old.id;
	END`

const (
	insertLeaseEnd = `
	INSERT INTO main.watchdog_lease_ends (lease, run_id, attempt)
	SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM main.watchdog_leases WHERE id = ?1) ON CONFLICT DO NOTHING`

	forgetLeaseEnd  = `DELETE FROM main.watchdog_lease_ends WHERE lease = ?1 AND run_id = ?2 AND attempt = ?3`
	selectLeaseEnds = `SELECT run_id, attempt FROM main.watchdog_lease_ends WHERE lease = ?1 ORDER BY run_id, attempt`
)

// noteEnd notes for its lease that somebody else ends a session.
func (t *transaction) noteEnd(s session.Session) error {
	if s.Lease == "" {
		return nil
	}
	return t.run(insertLeaseEnd, s.Lease, s.RunID, s.Attempt)
}

// Ended implements [session.Leases]. It only reads if there is nothing to forget.
func (s *Store) Ended(ctx context.Context, lease string, told []session.AttemptID) ([]session.AttemptID, error) {
	if len(told) == 0 {
		return readRows(ctx, s, "the ends of lease "+lease, scanAttempt, selectLeaseEnds, lease)
	}
	doing := "forget ends of lease " + lease
	return changeRows(ctx, s, doing, len(told), func(t *transaction) ([]session.AttemptID, error) {
		for _, a := range told {
			if err := t.run(forgetLeaseEnd, lease, a.RunID, a.Attempt); err != nil {
				return nil, err
			}
		}
		return rowsOf(t, scanAttempt, selectLeaseEnds, lease)
	})
}

func scanAttempt(rows *sql.Rows) (a session.AttemptID, err error) {
	err = rows.Scan(&a.RunID, &a.Attempt)
	return a, err
}
