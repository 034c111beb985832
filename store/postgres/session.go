package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// What the columns of a row s of watchdog_sessions mean.
const (
	isQuiet = `(s.quiet_since IS NOT NULL OR s.quiet_due IS NOT NULL)`

	// vouchedFor is the instant up to which a lease l vouches for all rows but those that it names as behind, ofBehind
	// that of a row which it names, and ofVouched that of any row. Written is NULL for a row that is not named. It is an
	// expression, because the executor makes ready a subquery in each statement that has one, also where it finds no row.
	vouchedFor = `greatest(l.vouched, l.covered)`
	written    = `CASE WHEN l.behind IS NOT NULL THEN pg_catalog.jsonb_path_query_first(l.behind::pg_catalog.jsonb,
		'$[*] ? (@.run == $run && @.attempt == $attempt).written',
		pg_catalog.jsonb_build_object('run', s.run_id, 'attempt', s.attempt))::bigint END`
	ofVouched = `least(` + written + `, ` + vouchedFor + `)`
	ofBehind  = `CASE WHEN ` + written + ` IS NOT NULL THEN ` + ofVouched + ` END`
	// ofSilence is how long the lease vouches that the run is silent, and isBehind whether it names the row as behind.
	ofSilence = `greatest(` + ofVouched + ` {-} s.activity, 0)`
	isBehind  = written + ` IS NOT NULL`
	// ofQuiet and fromLease are around them where the lease is to be looked up.
	ofQuiet   = `CASE WHEN s.lease IS NOT NULL AND ` + isQuiet + ` THEN (SELECT `
	fromLease = ` FROM SCHEMA.watchdog_leases AS l WHERE l.id {=} s.lease) END`
	// ofLastSign is the activity by the database's clock.
	ofLastSign = `CASE WHEN s.lease IS NOT NULL AND s.activity IS NOT NULL THEN (
		SELECT l.renewed_at {+} (
			pg_catalog.floor((s.activity {-} l.clock) {/} 1000.0)::bigint {*} interval '1 microsecond')
		FROM SCHEMA.watchdog_leases AS l WHERE l.id {=} s.lease) END`
	// isNoted is whether the run has given no sign of life since it was warned, or its agents were stopped. noteSigns
	// makes it so, in an UPDATE. Before that what was noted earlier is void, if it is.
	isNoted = `(coalesce(s.warned_lease, '') {=} coalesce(s.lease, '')
		AND coalesce(s.warned_beat, -1) {=} coalesce(s.activity, -1)
		AND coalesce(s.warned_last_event, '-infinity') {=} coalesce(s.last_event_at, '-infinity'))`
	noteSigns = ` warned_lease = s.lease, warned_beat = s.activity, warned_last_event = s.last_event_at`
	// isStopped is whether the agents of an active session were stopped, or a sweeper tried to. The column stop_failed is
	// NULL before that.
	isStopped = `(s.stop_failed IS NOT NULL AND ` + isNoted + `)`
	// leaveLease takes a row out of its lease, in an UPDATE: its times are by the database's clock again.
	leaveLease    = leaveLeaseBut + `, lost = NULL`
	leaveLeaseBut = ` lease = NULL, activity = NULL, quiet_since = NULL, quiet_due = NULL, allowance = NULL`
)

// sessionFields are the columns of a session s, as they are: [sessionRow] says what they mean. To make an expression of
// each took a tenth of a search for stalled sessions, also of one that found nothing.
const (
	sessionFields = beforeSilence + ofQuiet + ofSilence + fromLease + beforeBehind + ofQuiet + isBehind + fromLease +
		afterBehind

	beforeSilence = ` s.run_id, s.parent, s.status, {send}(s.created_at),
	{send}(s.last_event_at), s.threshold, {send}(s.started_at), s.host,
	s.attempt, s.resumes, s.reason, s.readable, s.lease, s.activity, `
	beforeBehind = `, ` + isNoted + `, {send}(s.warned_at), s.claim,
	{send}(s.ended_at), s.stop_failed, s.state::{text}, `
	afterBehind = `, s.allowance, s.expired_lease, s.lost, s.start_key, s.start_tries, {send}(s.start_due) `
)

// A sessionRow is a row of sessionFields. All fields are NULL if a join found no row.
type sessionRow struct {
	runID, parent, status, host, reason, lease, claim, state, expired, startKey pgtype.Text
	created, lastEvent, started, warned, ended, startDue                        instant
	threshold, attempt, resumes, activity, silence, allowance, startTries       pgtype.Int8
	readable, noted, stopFailed, behind, lost                                   pgtype.Bool
}

func (r *sessionRow) scanInto(first ...any) []any {
	return append(first, &r.runID, &r.parent, &r.status, &r.created, &r.lastEvent, &r.threshold, &r.started, &r.host,
		&r.attempt, &r.resumes, &r.reason, &r.readable, &r.lease, &r.activity, &r.silence, &r.noted, &r.warned, &r.claim,
		&r.ended, &r.stopFailed, &r.state, &r.behind, &r.allowance, &r.expired, &r.lost, &r.startKey, &r.startTries,
		&r.startDue)
}

func (r *sessionRow) exists() bool { return r.runID.Valid }

// Session parses the row. Its error wraps [session.ErrUnreadable].
func (r *sessionRow) Session() (session.Session, error) {
	if !r.readable.Bool {
		return session.Session{}, unreadable(r.runID.String)
	}
	s := session.Session{
		RunID: r.runID.String, Parent: r.parent.String, Status: session.Status(r.status.String), Host: r.host.String,
		CreatedAt: r.created.Time, LastEventAt: r.lastEvent.Time, StartedAt: r.started.Time,
		Threshold: time.Duration(r.threshold.Int64), Attempt: int(r.attempt.Int64), Resumes: int(r.resumes.Int64),
		Reason: watchdog.StopReason(r.reason.String), Claim: r.claim.String,
		Lease: r.lease.String, Activity: time.Duration(r.activity.Int64), Silence: time.Duration(r.silence.Int64),
		Behind: r.behind.Bool, Allowance: time.Duration(r.allowance.Int64),
		Expired: storeflow.ReadExpired(r.expired.String),
	}
	if r.lease.Valid && !r.activity.Valid {
		s.Activity = session.NoActivity
	}
	if r.noted.Bool {
		s.WarnedAt = r.warned.Time
	}
	if s.Status == session.Active {
		s.Stopped = r.noted.Bool && r.stopFailed.Valid
		s.StopFailed = s.Stopped && r.stopFailed.Bool
		s.Lost = r.lost.Bool
	} else {
		r.addEnd(&s)
	}
	if r.state.Valid {
		s.State = json.RawMessage(r.state.String)
	}
	return s, nil
}

// addEnd adds what a row says whose run has ended, the time as far as others can read it.
func (r *sessionRow) addEnd(s *session.Session) {
	if year := r.ended.Time.Year(); year >= 1 && year <= 9999 {
		s.EndedAt = r.ended.Time
	}
	if s.Status != session.Cancelled {
		return
	}
	s.StopFailed = r.stopFailed.Bool
	if r.startDue.Valid {
		s.Start = session.WantedStart{
			Key: r.startKey.String, Tries: int(r.startTries.Int64), Due: r.startDue.Time,
		}
	}
}

func unreadable(runID string) error {
	return fmt.Errorf("%w: run %s: its times must be in the years 1 to 9999, its numbers 0 or more, "+
		"and its status a known one", session.ErrUnreadable, runID)
}

const selectSession = `SELECT` + sessionFields + `FROM SCHEMA.watchdog_sessions AS s WHERE s.run_id {=} $1`

// Session implements [session.Store].
func (s *Store) Session(ctx context.Context, runID string) (session.Session, error) {
	return answer(ctx, s.do, "look for session "+runID+" in", func(ctx context.Context) (session.Session, error) {
		return s.sessionBy(ctx, ": run "+runID, selectSession, runID)
	})
}

func (s *Store) sessionBy(ctx context.Context, which, statement string, arguments ...any) (session.Session, error) {
	rows, err := query(ctx, s, scanSession, statement, arguments...)
	switch {
	case err != nil:
		return session.Session{}, err
	case len(rows) == 0:
		return session.Session{}, fmt.Errorf("%w%s", session.ErrNotFound, which)
	}
	return rows[0].Session()
}

func scanSession(row pgx.CollectableRow) (r sessionRow, err error) {
	err = row.Scan(r.scanInto()...)
	return r, err
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = storeflow.Truncate(t)
	return &t
}

// selectListed lists the sessions for which conditions hold. There is always a row, which has the time. The conditions
// are written as those of the partial indexes, so that the planner uses these. The sort is by the columns of an index:
// the table is read in its order, from the place where the page begins.
const selectListed = `SELECT {send}({now}), found.*
	FROM (VALUES (1)) AS one LEFT JOIN (
		SELECT {send}(s.created_at),` + sessionFields + `FROM SCHEMA.watchdog_sessions AS s WHERE %s
		ORDER BY s.created_at DESC, s.run_id DESC LIMIT (SELECT $1::bigint)) AS found ON true`

// List implements [session.Lister], in one round trip. A list by reason reads the sessions with other reasons, too.
func (s *Store) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	last, err := storeflow.AfterOf(q.After, q)
	if err != nil {
		return session.ListPage{}, err
	}
	statement, arguments := listStatement(q, last)
	rows, err := ask(ctx, s, s.do, "list sessions in", scanListed, statement, arguments...)
	if err != nil {
		return session.ListPage{}, err
	}
	return storeflow.ListPage(rows[0].now.Time, found(rows), q.Limit), nil
}

// found leaves out the row without a session, which is there if there is no other.
func found[R interface{ exists() bool }](rows []R) []R {
	if !rows[0].exists() {
		return nil
	}
	return rows
}

// hasFailed is what [session.Session.Failed] is. The server fails to read a state with \u0000 or half a surrogate pair,
// whatever field it is in, and one such row would hide all others. So these are read as a slash, which may also stand
// after a backslash, and makes no outcome of another text.
const (
	hasFailed = `(s.status {=} 'finished' AND s.reason {=} 'complete'
	AND coalesce((` + readState + ` {->>} 'outcome') {=} 'failed', false))`
	readState = `CASE WHEN pg_catalog.strpos(s.state::{text}, ` + escaped + `) {>} 0
		THEN pg_catalog.regexp_replace(s.state::{text}, E'\\\\u(0000|[dD][89a-fA-F])', '/', 'g')::pg_catalog.json
		ELSE s.state END`
)

func listStatement(q session.ListQuery, last session.Place) (statement string, arguments []any) {
	arguments = []any{min(q.Limit, math.MaxInt32) + 1} // one more, to know whether there is a next page
	conditions := []string{"true"}
	add := func(condition string, values ...any) {
		for _, value := range values {
			arguments = append(arguments, value)
			condition = strings.Replace(condition, "?", fmt.Sprint("$", len(arguments)), 1)
		}
		conditions = append(conditions, condition)
	}
	if q.After != "" {
		add(`(s.created_at, s.run_id) {<} (?::{time}, ?::{text})`, createdAt(last.Due), last.RunID)
	}
	switch {
	case q.Live && !q.Ended:
		add(`s.status {=} 'active'`)
	case q.Ended && !q.Live:
		add(`s.status {<>} 'active'`)
	}
	if q.Parent != "" {
		add(`s.parent {<>} '' AND s.parent {=} ?`, q.Parent)
	}
	if q.Host != "" {
		add(`s.host {=} ?`, q.Host)
	}
	switch q.Reason {
	case "":
	case session.ReasonFailed:
		add(hasFailed)
	default:
		add(`s.reason {=} ? AND NOT `+hasFailed, string(q.Reason))
	}
	return fmt.Sprintf(selectListed, strings.Join(conditions, " AND ")), arguments
}

// The place of a row with an infinite time.
const (
	beforeAll = math.MinInt64
	afterAll  = math.MaxInt64
)

func createdAt(microseconds int64) pgtype.Timestamptz {
	switch microseconds {
	case beforeAll:
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	case afterAll:
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: time.UnixMicro(microseconds).UTC(), Valid: true}
}

type listedRow struct {
	sessionRow
	now, made instant
}

func scanListed(row pgx.CollectableRow) (*listedRow, error) {
	r := new(listedRow)
	return r, row.Scan(r.scanInto(&r.now, &r.made)...)
}

func (r *listedRow) Place() session.Place {
	p := session.Place{Due: r.made.Time.UnixMicro(), RunID: r.runID.String}
	if r.made.Infinite {
		if p.Due = afterAll; r.made.Negative {
			p.Due = beforeAll
		}
	}
	return p
}
