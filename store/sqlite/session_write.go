package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

const attachRow = `
	INSERT INTO main.watchdog_sessions
		(run_id, parent, threshold, started_at, host, status, created_at, last_event_at, attempt)
	VALUES (?1, ?2, ?3, ?4, ?5, 'active', ?6, ?6, 1)
	ON CONFLICT (run_id) DO UPDATE SET parent = ?2, threshold = ?3, started_at = ?4, host = ?5,
		status = 'active', reason = '', last_event_at = ?6, attempt = attempt + 1`

// Attach implements [session.Store]. If the row is unreadable, Attach leaves it as it is and returns an error that
// wraps [session.ErrUnreadable].
func (s *Store) Attach(ctx context.Context, run session.Session) (before, after session.Session, err error) {
	err = s.change(ctx, "attach to session "+run.RunID, 1, func(t *transaction) (err error) {
		if before, err = t.session(run.RunID); err != nil && !errors.Is(err, session.ErrNotFound) {
			return err
		}
		now, err := t.now()
		if err != nil {
			return err
		}
		err = t.run(attachRow,
			run.RunID, run.Parent, int64(run.Threshold), formatTime(run.StartedAt), run.Host, formatTime(now))
		if err != nil {
			return err
		}
		after, err = t.session(run.RunID)
		return err
	})
	if err != nil {
		return session.Session{}, session.Session{}, err
	}
	return before, after, nil
}

// The + in front of status keeps SQLite from using an index: it would prefer a host's index on the status to the
// primary key.
//
// The rows to freshen are one JSON array of texts: the time, the attempt in ten digits, the run ID. Cutting a text by
// position costs a third of what a JSON object costs.
const (
	freshTable = `(SELECT substr(value, 1, 26) AS at, CAST(substr(value, 27, 10) AS INTEGER) AS attempt,
		substr(value, 37) AS run_id FROM json_each(?1))`

	freshenRows = `
		UPDATE main.watchdog_sessions AS s SET last_event_at = max(coalesce(s.last_event_at, ''), f.at)
		FROM ` + freshTable + ` AS f
		WHERE s.run_id = f.run_id AND +s.status = 'active' AND s.attempt = f.attempt`

	selectGone = `
		SELECT DISTINCT f.run_id FROM ` + freshTable + ` AS f
		WHERE NOT EXISTS (SELECT 1 FROM main.watchdog_sessions AS s
			WHERE s.run_id = f.run_id AND +s.status = 'active' AND s.attempt = f.attempt)`
)

// Freshen implements [session.Store]. It runs a second statement only if a session is gone. No row is locked by itself:
// if another program has locked the database for too long, that is an error.
func (s *Store) Freshen(ctx context.Context, fresh []session.Freshness) (skipped session.Skipped, err error) {
	var gone []string
	runOf := func(f session.Freshness) string { return f.RunID }
	skipped.Refused, err = storerows.WriteEach(latestOf(fresh), runOf, func(part []session.Freshness) error {
		some, err := s.freshen(ctx, part)
		gone = append(gone, some...)
		return err
	}, isRefusal)
	skipped.Gone = gone
	return skipped, err
}

// freshen writes some of the rows in one transaction.
func (s *Store) freshen(ctx context.Context, part []session.Freshness) (gone []string, err error) {
	err = s.change(ctx, fmt.Sprintf("freshen %d sessions", len(part)), len(part), func(t *transaction) error {
		gone = nil
		now, err := t.now()
		if err != nil {
			return err
		}
		list, err := freshJSON(part, now)
		if err != nil {
			return err
		}
		changed, err := t.change(freshenRows, list)
		if err == nil && changed < int64(len(part)) {
			gone, err = t.texts(selectGone, list)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

// latestOf keeps the youngest age of each attempt: of two joined rows, an UPDATE takes an arbitrary one.
func latestOf(fresh []session.Freshness) []session.Freshness {
	type attempt struct {
		runID  string
		number int
	}
	index := make(map[attempt]int, len(fresh))
	var latest []session.Freshness
	for _, f := range fresh {
		at, exists := index[attempt{f.RunID, f.Attempt}]
		if !exists {
			index[attempt{f.RunID, f.Attempt}] = len(latest)
			latest = append(latest, f)
			continue
		}
		latest[at].Age = min(latest[at].Age, f.Age)
	}
	return latest
}

func freshJSON(fresh []session.Freshness, now time.Time) (string, error) {
	texts := make([]string, len(fresh))
	for i, f := range fresh {
		texts[i] = fmt.Sprintf("%s%010d%s", formatTime(now.Add(-f.Age)), f.Attempt, f.RunID)
	}
	list, err := json.Marshal(texts)
	return string(list), err
}

const endRow = `
	UPDATE main.watchdog_sessions SET status = ?3, reason = ?4, ended = ?5
	WHERE run_id = ?1 AND attempt = ?2 AND +status = 'active'`

// End implements [session.Store]. If an ending is invalid ([session.Ending.Validate]), End writes nothing and returns
// the error. It treats locks as Freshen does.
func (s *Store) End(ctx context.Context, ends []session.Ending) (skipped session.Skipped, err error) {
	for _, e := range ends {
		if err := e.Validate(); err != nil {
			return session.Skipped{}, err
		}
	}
	runOf := func(e session.Ending) string { return e.RunID }
	skipped.Refused, err = storerows.WriteEach(ends, runOf, func(part []session.Ending) error {
		return s.end(ctx, part)
	}, isRefusal)
	return skipped, err
}

// end writes some of the endings in one transaction.
func (s *Store) end(ctx context.Context, part []session.Ending) error {
	return s.change(ctx, fmt.Sprintf("end %d sessions", len(part)), len(part), func(t *transaction) error {
		number, err := t.nextEndNumber()
		if err != nil {
			return err
		}
		for _, e := range part {
			if err := t.run(endRow, e.RunID, e.Attempt, string(e.Status), string(e.Reason), number); err != nil {
				return err
			}
		}
		return nil
	})
}

const cancelRow = `
	UPDATE main.watchdog_sessions SET status = 'cancelled', reason = ?4, resumes = ?5, ended = ?6
	WHERE run_id = ?1 AND attempt = ?2 AND last_event_at IS ?3 AND +status = 'active'`

// Cancel implements [session.Store]. Like Append it shares a transaction with other writes and waits for its commit.
func (s *Store) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (cancelled bool, err error) {
	rows, err := encode(c.Events)
	if err != nil {
		return false, fmt.Errorf("cancel session %s: %w", judged.RunID, err)
	}
	err = s.change(ctx, "cancel session "+judged.RunID, 1+len(rows), func(t *transaction) error {
		cancelled = false
		number, err := t.nextEndNumber()
		if err != nil {
			return err
		}
		changed, err := t.change(cancelRow,
			judged.RunID, judged.Attempt, nullTime(judged.LastEventAt), string(c.Reason), c.Resumes, number)
		if err != nil || changed == 0 {
			return err
		}
		cancelled = true
		return t.insertEvents(rows)
	})
	return cancelled && err == nil, err
}

// change has a write of session rows committed.
func (s *Store) change(ctx context.Context, doing string, size int, write func(*transaction) error) error {
	err := ctx.Err()
	if err == nil {
		err = s.commit(ctx, size, write)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// now returns the time of the database's clock.
func (t *transaction) now() (time.Time, error) {
	var text string
	if err := t.queryValue(&text, "SELECT "+databaseTime); err != nil {
		return time.Time{}, err
	}
	return time.Parse(timeLayout, text)
}

// nextEndNumber returns the number of the ends of this transaction: the time, but above all stored numbers, even if the
// clock was set back.
func (t *transaction) nextEndNumber() (number int64, err error) {
	err = t.queryValue(&number, `
		SELECT max(`+databaseMicros+`, 1 + coalesce((SELECT max(ended) FROM main.watchdog_sessions WHERE `+hasEnded+`), 0))`)
	return number, err
}

var selectSession = `SELECT ` + sessionText + ` FROM main.watchdog_sessions WHERE run_id = ?1`

func (t *transaction) session(runID string) (session.Session, error) {
	prepared, err := t.prepare(selectSession) //nolint:sqlclosecheck // kept as long as the writer
	if err != nil {
		return session.Session{}, err
	}
	return oneSession(prepared.QueryRowContext(context.Background(), runID), runID)
}

func oneSession(found *sql.Row, runID string) (session.Session, error) {
	var text string
	switch err := found.Scan(&text); {
	case errors.Is(err, sql.ErrNoRows):
		return session.Session{}, fmt.Errorf("%w: run %s", session.ErrNotFound, runID)
	case err != nil:
		return session.Session{}, err
	}
	return readSession(text)
}

// texts returns the first column of a query.
func (t *transaction) texts(query string, arguments ...any) (texts []string, err error) {
	rows, err := t.conn.QueryContext(context.Background(), query, arguments...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

var (
	_ session.Store               = (*Store)(nil)
	_ watchdog.TransactionalStore = (*Store)(nil)
	_ watchdog.FeedStore          = (*Store)(nil)
)
