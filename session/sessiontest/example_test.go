package sessiontest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/session/sessiontest"
)

// A testStore is the store under test, with a second connection to its database. Through this connection the rules
// write rows as another program would.
type testStore struct {
	session.Store
	db *sql.DB
}

func (s testStore) Put(ctx context.Context, rows ...session.Session) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, r := range rows {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO agent_sessions
			(run_id, parent, status, created_at, last_event_at, threshold, started_at, host, attempt, resumes, reason)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			r.RunID, r.Parent, r.Status, r.CreatedAt, sql.NullTime{Time: r.LastEventAt, Valid: !r.LastEventAt.IsZero()},
			r.Threshold, r.StartedAt, r.Host, r.Attempt, r.Resumes, r.Reason)
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s testStore) Spoil(ctx context.Context, runID string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE agent_sessions SET last_event_at = 'yesterday' WHERE run_id = ?`, runID)
	return err
}

// The test of a store in a host's own database. Without Put and Spoil, Run would skip the rules about old rows.
func ExamplePutter() {
	var (
		t    *testing.T                                  // the argument of the host's func TestSessions(t *testing.T)
		open func(t *testing.T) (session.Store, *sql.DB) // opens the host's store in a new database
	)

	sessiontest.Run(t, func(t *testing.T) session.Store {
		store, db := open(t)
		return testStore{store, db}
	})
}
