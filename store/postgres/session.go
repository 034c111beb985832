package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// sessionFields are the columns of a session. Times of an unreadable row are NULL, because Go cannot read an infinite
// time, or a year above 9999.
const sessionFields = ` run_id, parent, status,
	CASE WHEN readable THEN pg_catalog.timestamptz_send(created_at) END,
	CASE WHEN readable THEN pg_catalog.timestamptz_send(last_event_at) END, threshold,
	CASE WHEN readable THEN pg_catalog.timestamptz_send(started_at) END, host, attempt, resumes, reason, readable `

// A sessionRow is a row of sessionFields. All fields are NULL if a join found no row.
type sessionRow struct {
	runID, parent, status, host, reason pgtype.Text
	created, lastEvent, started         instant
	threshold, attempt, resumes         pgtype.Int8
	readable                            pgtype.Bool
}

// scanInto returns the destinations for scanning a row, after the first ones.
func (r *sessionRow) scanInto(first ...any) []any {
	return append(first, &r.runID, &r.parent, &r.status, &r.created, &r.lastEvent, &r.threshold, &r.started,
		&r.host, &r.attempt, &r.resumes, &r.reason, &r.readable)
}

// session parses the row. Its error wraps [session.ErrUnreadable].
func (r *sessionRow) session() (session.Session, error) {
	if !r.readable.Bool {
		return session.Session{}, unreadable(r.runID.String)
	}
	s := session.Session{
		RunID: r.runID.String, Parent: r.parent.String, Status: session.Status(r.status.String), Host: r.host.String,
		CreatedAt: r.created.Time.UTC(), StartedAt: r.started.Time.UTC(), Threshold: time.Duration(r.threshold.Int64),
		Attempt: int(r.attempt.Int64), Resumes: int(r.resumes.Int64), Reason: watchdog.StopReason(r.reason.String),
	}
	if r.lastEvent.Valid {
		s.LastEventAt = r.lastEvent.Time.UTC()
	}
	return s, nil
}

func unreadable(runID string) error {
	return fmt.Errorf("%w: run %s: its times must be in the years 1 to 9999, its numbers 0 or more, "+
		"and its status a known one", session.ErrUnreadable, runID)
}

const selectSession = `SELECT` + sessionFields + `FROM SCHEMA.watchdog_sessions WHERE run_id {=} $1`

// Session implements [session.Store].
func (s *Store) Session(ctx context.Context, runID string) (found session.Session, err error) {
	err = s.do(ctx, "look for session "+runID+" in", func(ctx context.Context) error {
		rows, err := query(ctx, s, scanSession, selectSession, runID)
		switch {
		case err != nil:
			return err
		case len(rows) == 0:
			return fmt.Errorf("%w: run %s", session.ErrNotFound, runID)
		}
		found, err = rows[0].session()
		return err
	})
	return found, err
}

func scanSession(row pgx.CollectableRow) (r sessionRow, err error) {
	err = row.Scan(r.scanInto()...)
	return r, err
}

// nullTime returns NULL for a zero time.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = record.Truncate(t)
	return &t
}
