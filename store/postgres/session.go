package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// What the columns of a row s of watchdog_sessions mean.
const (
	isLeased    = `(s.lease IS NOT NULL AND coalesce(s.leased {=} s.attempt, false))`
	isQuiet     = `(s.quiet_since IS NOT NULL OR s.quiet_due IS NOT NULL)`
	ofLease     = `CASE WHEN ` + isLeased + ` THEN s.lease END`
	ofActivity  = `CASE WHEN ` + isLeased + ` THEN s.activity END`
	ofThreshold = `CASE WHEN ` + isLeased + ` THEN coalesce(s.own_threshold, 0) ELSE s.threshold END`

	// ofSilence is how long the lease vouches that the run is silent.
	ofSilence = `CASE WHEN ` + isLeased + ` AND ` + isQuiet + ` THEN (
		SELECT greatest(l.vouched {-} s.activity, 0) FROM SCHEMA.watchdog_leases AS l WHERE l.id {=} s.lease) END`
	// ofLastSign is the activity by the database's clock.
	ofLastSign = `CASE WHEN ` + isLeased + ` AND s.activity IS NOT NULL THEN (
		SELECT l.renewed_at {+} (
			pg_catalog.floor((s.activity {-} l.clock) {/} 1000.0)::bigint {*} interval '1 microsecond')
		FROM SCHEMA.watchdog_leases AS l WHERE l.id {=} s.lease) END`
	// isNoted is whether the run has given no sign of life since it was warned, or its agents were stopped. noteSigns
	// makes it so, in an UPDATE. Before that what was noted earlier is void, if it is.
	isNoted = `coalesce(s.warned_attempt {=} s.attempt
		AND coalesce(s.warned_lease, '') {=} coalesce(` + ofLease + `, '')
		AND coalesce(s.warned_beat, -1) {=} coalesce(` + ofActivity + `, -1)
		AND coalesce(s.warned_last_event, '-infinity') {=} coalesce(s.last_event_at, '-infinity'), false)`
	noteSigns = ` warned_attempt = s.attempt, warned_lease = ` + ofLease + `, warned_beat = ` + ofActivity + `,
		warned_last_event = s.last_event_at`
	// isStopped is whether the agents of an active session were stopped, or a sweeper tried to. The column stop_failed is
	// NULL before that.
	isStopped = `(s.stop_failed IS NOT NULL AND ` + isNoted + `)`
	// leaveLease takes a row out of its lease, in an UPDATE: its times are by the database's clock again.
	leaveLease = ` threshold = ` + ofThreshold + `, lease = NULL, leased = NULL, own_threshold = NULL, activity = NULL,
		quiet_since = NULL, quiet_due = NULL`
)

// sessionFields are the columns of a session s. Times of an unreadable row are NULL, because Go cannot read an infinite
// time, or a year above 9999.
const sessionFields = ` s.run_id, s.parent, s.status,
	CASE WHEN s.readable THEN pg_catalog.timestamptz_send(s.created_at) END,
	CASE WHEN s.readable THEN pg_catalog.timestamptz_send(s.last_event_at) END, ` + ofThreshold + `,
	CASE WHEN s.readable THEN pg_catalog.timestamptz_send(s.started_at) END, s.host, s.attempt, s.resumes, s.reason,
	s.readable, ` + ofLease + `, ` + ofActivity + `, ` + ofSilence + `,
	CASE WHEN ` + isNoted + ` THEN pg_catalog.timestamptz_send(s.warned_at) END, s.claim,
	CASE WHEN s.status {=} 'cancelled' OR s.status {=} 'active' AND ` + isNoted + ` THEN s.stop_failed END,
	s.state::pg_catalog.text `

// A sessionRow is a row of sessionFields. All fields are NULL if a join found no row.
type sessionRow struct {
	runID, parent, status, host, reason, lease, claim, state pgtype.Text
	created, lastEvent, started, warned                      instant
	threshold, attempt, resumes, activity, silence           pgtype.Int8
	readable, stopFailed                                     pgtype.Bool
}

// scanInto returns the destinations for scanning a row, after the first ones.
func (r *sessionRow) scanInto(first ...any) []any {
	return append(first, &r.runID, &r.parent, &r.status, &r.created, &r.lastEvent, &r.threshold, &r.started,
		&r.host, &r.attempt, &r.resumes, &r.reason, &r.readable, &r.lease, &r.activity, &r.silence, &r.warned,
		&r.claim, &r.stopFailed, &r.state)
}

// session parses the row. Its error wraps [session.ErrUnreadable].
func (r *sessionRow) session() (session.Session, error) {
	if !r.readable.Bool {
		return session.Session{}, unreadable(r.runID.String)
	}
	s := session.Session{
		RunID: r.runID.String, Parent: r.parent.String, Status: session.Status(r.status.String), Host: r.host.String,
		CreatedAt: r.created.Time, LastEventAt: r.lastEvent.Time, StartedAt: r.started.Time, WarnedAt: r.warned.Time,
		Threshold: time.Duration(r.threshold.Int64), Attempt: int(r.attempt.Int64), Resumes: int(r.resumes.Int64),
		Reason: watchdog.StopReason(r.reason.String), Lease: r.lease.String, Claim: r.claim.String,
		Silence: time.Duration(r.silence.Int64), StopFailed: r.stopFailed.Bool,
	}
	s.Stopped = s.Status == session.Active && r.stopFailed.Valid
	if s.Lease != "" {
		s.Activity = session.NoActivity
	}
	if r.activity.Valid {
		s.Activity = time.Duration(r.activity.Int64)
	}
	if r.state.Valid {
		s.State = json.RawMessage(r.state.String)
	}
	return s, nil
}

func unreadable(runID string) error {
	return fmt.Errorf("%w: run %s: its times must be in the years 1 to 9999, its numbers 0 or more, "+
		"and its status a known one", session.ErrUnreadable, runID)
}

const selectSession = `SELECT` + sessionFields + `FROM SCHEMA.watchdog_sessions AS s WHERE s.run_id {=} $1`

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

// nullJSON returns NULL for no JSON.
func nullJSON(text json.RawMessage) *string {
	if text == nil {
		return nil
	}
	all := string(text)
	return &all
}

// columnThreshold returns the columns threshold and own_threshold of a session that attaches: in a lease the first is
// off, for sweepers that know no leases.
func columnThreshold(s session.Session) (threshold int64, own *int64) {
	if s.Lease == "" {
		return int64(s.Threshold), nil
	}
	mine := int64(s.Threshold)
	return int64(watchdog.NoLimit), &mine
}
