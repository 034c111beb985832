package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// selectListed lists the sessions for which conditions hold. There is always a row, which has the time. The conditions
// are written as those of the partial indexes, so that the planner uses these. The sort is by the columns of an index:
// the table is read in its order, from the place where the page begins.
const selectListed = `SELECT {send}({now}), found.*
	FROM (VALUES (1)) AS one LEFT JOIN (
		SELECT {send}(s.created_at),` + sessionFields + `FROM SCHEMA.watchdog_sessions AS s%s
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

// hasFailed is what [session.Session.Failed] is.
const hasFailed = `(s.status {=} 'finished' AND s.reason {=} 'complete'
	AND coalesce((s.state {->>} 'outcome') {=} 'failed', false))`

func listStatement(q session.ListQuery, last storerows.Place) (statement string, arguments []any) {
	arguments = []any{min(q.Limit, math.MaxInt32) + 1} // one more, to know whether there is a next page
	var conditions []string
	add := func(condition string, values ...any) {
		var numbers []any
		for i := range values {
			numbers = append(numbers, len(arguments)+i+1)
		}
		conditions, arguments = append(conditions, fmt.Sprintf(condition, numbers...)), append(arguments, values...)
	}
	if q.After != "" {
		add(`(s.created_at, s.run_id) {<} ($%d::{time}, $%d::{text})`,
			createdAt(last.Due), last.RunID)
	}
	switch {
	case q.Live && !q.Ended:
		add(`s.status {=} 'active'`)
	case q.Ended && !q.Live:
		add(`s.status {<>} 'active'`)
	}
	if q.Parent != "" {
		add(`s.parent {<>} '' AND s.parent {=} $%d`, q.Parent)
	}
	if q.Host != "" {
		add(`s.host {=} $%d`, q.Host)
	}
	addReason(add, q.Reason)
	where := ""
	if len(conditions) > 0 {
		where = " WHERE " + strings.Join(conditions, " AND ")
	}
	return fmt.Sprintf(selectListed, where), arguments
}

func addReason(add func(condition string, values ...any), reason watchdog.StopReason) {
	switch reason {
	case "":
	case session.ReasonFailed:
		add(hasFailed)
	default:
		add(`s.reason {=} $%d AND NOT `+hasFailed, string(reason))
	}
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

// A listedRow is a row of selectListed.
type listedRow struct {
	sessionRow
	now, made instant
}

func scanListed(row pgx.CollectableRow) (*listedRow, error) {
	r := new(listedRow)
	return r, row.Scan(r.scanInto(&r.now, &r.made)...)
}

func (r *listedRow) Place() storerows.Place {
	p := storerows.Place{Due: r.made.Time.UnixMicro(), RunID: r.runID.String}
	if r.made.Infinite {
		if p.Due = afterAll; r.made.Negative {
			p.Due = beforeAll
		}
	}
	return p
}
