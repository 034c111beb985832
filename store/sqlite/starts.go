package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

const (
	// isToStart is the condition of a partial index. A query must repeat it word for word to use the index.
	isToStart = `start_due IS NOT NULL AND status = 'cancelled' AND start_attempt = attempt`

	rowStart = `CASE WHEN ` + isToStart + ` THEN start_tries || ' ' || start_due || ' ' || start_key ELSE '' END`
)

// start reads what rowStart returns.
func (r *rowReader) start(field int) (s session.WantedStart) {
	if r.fields[field] == "" {
		return s
	}
	parts := strings.SplitN(r.fields[field], " ", 3)
	tries, err := strconv.Atoi(parts[0])
	due, dueErr := strconv.ParseInt(parts[min(1, len(parts)-1)], 10, 64)
	if err != nil || dueErr != nil || len(parts) < 3 {
		r.problem(field, "%q is not the tries, the time and the key of a start")
		return s
	}
	return session.WantedStart{Key: parts[2], Tries: tries, Due: time.UnixMicro(due).UTC()}
}

const (
	// selectDueStart also finds a start that would be due so late, ?1 from now, that the clock has been set back since.
	selectDueStart = `SELECT ` + databaseMicros + `, coalesce((
		SELECT run_id FROM main.watchdog_sessions INDEXED BY watchdog_sessions_start
		WHERE ` + isToStart + ` AND start_due <= ` + databaseMicros + ` ORDER BY start_due, run_id LIMIT 1), (
		SELECT run_id FROM main.watchdog_sessions INDEXED BY watchdog_sessions_start
		WHERE ` + isToStart + ` AND start_due > ` + databaseMicros + ` + ?1 ORDER BY start_due, run_id LIMIT 1))`

	claimStart = `UPDATE main.watchdog_sessions SET start_tries = start_tries + 1, start_due = ?2 WHERE run_id = ?1`

	putOffStart = `UPDATE main.watchdog_sessions SET start_due = CASE WHEN ?5 >= 0 THEN ` + databaseMicros + ` + ?5 END
	WHERE run_id = ?1 AND attempt = ?2 AND start_key = ?3 AND start_tries = ?4 AND start_attempt = attempt
		AND start_due IS NOT NULL AND +status = 'cancelled'`
)

// ClaimStart implements [session.Starts]. If none is due it writes nothing. What the row says does not keep it from
// being claimed.
func (s *Store) ClaimStart(ctx context.Context, lasts time.Duration) (claimed session.Session, err error) {
	row, err := changed(ctx, s, "claim a start", 1, func(t *transaction) string { return t.claimStart(lasts) })
	switch {
	case err != nil:
		return claimed, lockedError(err)
	case row == "":
		err = fmt.Errorf("%w is to be started now", session.ErrNotFound)
	default:
		claimed, err = readSession(row)
	}
	if err != nil {
		err = fmt.Errorf("claim a start: %w", err)
	}
	return claimed, err
}

// claimStart returns the row as text, empty if no start is due.
func (t *transaction) claimStart(lasts time.Duration) (row string) {
	var now int64
	var runID sql.NullString
	t.look(selectDueStart, []any{storerows.SetBack.Microseconds()}, &now, &runID)
	if runID.Valid {
		t.do(claimStart, runID.String, now+storerows.RoundUp(storerows.StartPause(lasts)))
		t.look(selectSession, []any{runID.String}, &row)
	}
	return row
}

// PutOffStart implements [session.Starts].
func (s *Store) PutOffStart(ctx context.Context, claimed session.Session, pause time.Duration) (bool, error) {
	doing := "put off the start of session " + claimed.RunID
	rows, err := changed(ctx, s, doing, 1, func(t *transaction) int64 {
		return t.do(putOffStart,
			claimed.RunID, claimed.Attempt, claimed.Start.Key, claimed.Start.Tries, storeflow.StartPause(pause))
	})
	return rows > 0, lockedError(err)
}
