package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestAStoreOpenedFromAPathKeepsEveryRuleOfSessions(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T) session.Store {
		file := newFile(t)
		s := openAt(t, file)
		return putting{s, openPlain(t, file, "busy_timeout(10000)", "synchronous(OFF)")}
	})
}

func TestAStoreInAHostsDatabaseKeepsEveryRuleOfSessions(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T) session.Store {
		db := hostDatabase(t, newFile(t))
		return putting{newStore(t, db), db}
	})
}

// notUnderRace skips a way of opening that runs the same Go code as those before, which the race detector has seen.
func notUnderRace(t *testing.T) {
	t.Helper()
	if racing.Enabled {
		t.Skip("takes a minute under the race detector, and runs in the plain tests")
	}
}

func TestAStoreInAPoolOfOneConnectionKeepsEveryRuleOfSessions(t *testing.T) {
	notUnderRace(t)
	sessiontest.Run(t, func(t *testing.T) session.Store {
		db := openPlain(t, newFile(t), "busy_timeout(0)", "journal_mode(DELETE)")
		db.SetMaxOpenConns(1)
		return putting{newStore(t, db), db}
	})
}

func TestAStoreInAForeignTableKeepsEveryRuleOfSessions(t *testing.T) {
	notUnderRace(t)
	sessiontest.Run(t, func(t *testing.T) session.Store {
		db := hostDatabase(t, newFile(t))
		mustExec(t, db, foreignTable)
		return putting{newStore(t, db), db}
	})
}

func TestAStoreUnderADriverWithoutContextsKeepsEveryRuleOfSessions(t *testing.T) {
	notUnderRace(t)
	sessiontest.Run(t, func(t *testing.T) session.Store {
		file := newFile(t)
		db := hookedDatabase(t, file, func(string) error { return nil })
		mustExec(t, db, "PRAGMA journal_mode = WAL")
		return putting{newStore(t, db), openPlain(t, file, "busy_timeout(10000)")}
	})
}

// A putting store has another program, which writes to its table directly.
type putting struct {
	*sqlite.Store
	other *sql.DB
}

const putRow = `INSERT OR REPLACE INTO watchdog_sessions
	(run_id, parent, status, created_at, last_event_at, threshold, started_at, host, attempt, resumes, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (p putting) Put(ctx context.Context, rows ...session.Session) error {
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
		_, err := insert.ExecContext(ctx, s.RunID, s.Parent, string(s.Status), sqlite.FormatTime(s.CreatedAt), optional(s.LastEventAt),
			int64(s.Threshold), sqlite.FormatTime(s.StartedAt), s.Host, s.Attempt, s.Resumes, string(s.Reason))
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (p putting) Spoil(ctx context.Context, runID string) error {
	_, err := p.other.ExecContext(ctx, "UPDATE watchdog_sessions SET last_event_at = 'yesterday' WHERE run_id = ?", runID)
	return err
}

func optional(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return sqlite.FormatTime(at)
}
