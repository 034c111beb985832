package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A putter is a store with a connection of another program, which writes to the store's tables directly.
type putter struct {
	*sqlite.Store
	other *sql.DB
	kept  bool // for the next rule
}

// hurried returns the store after it was set to look at the table often while it is followed.
func (p putter) hurried() putter {
	p.SetFollowPause(10 * time.Millisecond)
	return p
}

// emptied returns the store after it deleted all rows, for the next rule. That rule does not close it.
func (p putter) emptied(t *testing.T) putter {
	t.Helper()
	mustExec(t, p.other, "BEGIN; DELETE FROM events; DELETE FROM watchdog_sessions; DELETE FROM watchdog_leases; "+
		"DELETE FROM watchdog_spend; DELETE FROM watchdog_slices; DELETE FROM watchdog_outbox; COMMIT")
	p.kept = true
	return p
}

// Close does nothing if the next rule uses the store again. It is closed when the test ends.
func (p putter) Close() error {
	if p.kept {
		return nil
	}
	return p.Store.Close()
}

const putRow = `INSERT OR REPLACE INTO watchdog_sessions
	(run_id, parent, status, created_at, last_event_at, threshold, started_at, host, attempt, resumes, reason)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (p putter) Put(ctx context.Context, rows ...session.Session) error {
	tx, err := p.other.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert, err := tx.PrepareContext(ctx, putRow)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, s := range rows {
		_, err := insert.ExecContext(ctx,
			s.RunID, s.Parent, string(s.Status), sqlite.FormatTime(s.CreatedAt), optional(s.LastEventAt),
			int64(s.Threshold), sqlite.FormatTime(s.StartedAt), s.Host, s.Attempt, s.Resumes, string(s.Reason))
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (p putter) Spoil(ctx context.Context, runID string) error {
	_, err := p.other.ExecContext(ctx, "UPDATE watchdog_sessions SET last_event_at = 'yesterday' WHERE run_id = ?", runID)
	return err
}

// optional returns NULL for a zero time.
func optional(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return sqlite.FormatTime(at)
}
