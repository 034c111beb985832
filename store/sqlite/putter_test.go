package sqlite_test

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A putter is a store with a connection of another program, which writes to the store's tables directly.
type putter struct {
	*sqlite.Store
	other *sql.DB
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
