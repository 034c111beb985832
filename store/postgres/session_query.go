package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// selectStalled finds stalled sessions. There is always a row, and each row has the time and the unreadable run IDs.
// Sessions with a threshold of their own are in another index than those without. Each half is limited, and has the
// order of its index, without which the planner would read the whole table. pageOf merges the two.
//
// The parameters are in selects of their own, so that the planner does not see their values. It then uses one plan
// for all values, and plans a prepared statement only once: planning takes five times as long as the rest.
//
//   - $1 and $2: the threshold and the minimum age, in microseconds
//   - $3: the limit
//   - ($4, $6): where the half with the query's threshold begins
//   - ($5, $6): where the half with own thresholds begins
//   - $7: how many unreadable rows to return at most
const (
	before1 = `pg_catalog.statement_timestamp() {-} ($1::bigint {*} interval '1 microsecond')`
	before2 = `pg_catalog.statement_timestamp() {-} ($2::bigint {*} interval '1 microsecond')`

	selectStalled = `
	SELECT pg_catalog.timestamptz_send(pg_catalog.statement_timestamp()),
		ARRAY(SELECT run_id FROM SCHEMA.watchdog_sessions WHERE ` + isUnreadable + ` LIMIT (SELECT $7::bigint)), found.*
	FROM (VALUES (1)) AS one LEFT JOIN (
		(SELECT` + sessionFields + `FROM SCHEMA.watchdog_sessions
		WHERE ` + hasDefaultThreshold + ` AND (silent, run_id) {>} ((SELECT $4::pg_catalog.timestamptz), $6::pg_catalog.text)
			AND silent {<} (SELECT ` + before1 + `)
			AND created_at {<=} (SELECT ` + before2 + `)
		ORDER BY silent, run_id LIMIT (SELECT $3::bigint))
		UNION ALL
		(SELECT` + sessionFields + `FROM SCHEMA.watchdog_sessions
		WHERE ` + hasOwnThreshold + ` AND (due, run_id) {>} ((SELECT $5::pg_catalog.timestamptz), $6::pg_catalog.text)
			AND due {<} (SELECT pg_catalog.statement_timestamp())
			AND created_at {<=} (SELECT ` + before2 + `)
		ORDER BY due, run_id LIMIT (SELECT $3::bigint))
	) AS found ON true`
)

// Stalled implements [session.Store], in one round trip. Sessions that exceeded their thresholds at the same time are
// ordered by run ID. The first page reports unreadable rows, at most a hundred.
func (s *Store) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	last, err := storerows.ParsePlace(q.After)
	if err = cmp.Or(q.Validate(), err); err != nil {
		return session.Page{}, err
	}
	var page session.Page
	err = s.do(ctx, "find stalled sessions in", func(ctx context.Context) error {
		rows, err := query(ctx, s, scanStalled, selectStalled, stalledArguments(q, last)...)
		if err == nil {
			page, err = pageOf(rows, q)
		}
		return err
	})
	return page, err
}

func stalledArguments(q session.Query, last storerows.Place) []any {
	threshold := q.Threshold.Microseconds()
	silent := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	due, unreadable := silent, storerows.MaxUnreadable
	if q.After != "" {
		silent = pgtype.Timestamptz{Time: time.UnixMicro(last.Due - threshold), Valid: true}
		due, unreadable = pgtype.Timestamptz{Time: time.UnixMicro(last.Due), Valid: true}, 0
	}
	limit := min(q.Limit, math.MaxInt32) + 1 // one more, to know whether there is a next page
	return []any{threshold, storerows.RoundUp(q.MinAge), limit, silent, due, last.RunID, unreadable}
}

// A stalledRow is a row of selectStalled.
type stalledRow struct {
	sessionRow
	now        instant
	unreadable []string
}

func scanStalled(row pgx.CollectableRow) (r stalledRow, err error) {
	err = row.Scan(r.scanInto(&r.now, &r.unreadable)...)
	return r, err
}

// pageOf merges the two halves.
func pageOf(rows []stalledRow, q session.Query) (session.Page, error) {
	page := session.Page{Now: rows[0].now.Time.UTC()}
	for _, runID := range rows[0].unreadable {
		page.Unreadable = append(page.Unreadable, unreadable(runID))
	}
	for _, r := range rows {
		if !r.runID.Valid {
			break // the row without a session
		}
		one, err := r.session()
		if err != nil {
			return session.Page{}, err
		}
		page.Sessions = append(page.Sessions, one)
	}
	page.Sessions, page.Next = storerows.Paginate(page.Sessions, q.Limit, func(s session.Session) storerows.Place {
		threshold := cmp.Or(s.Threshold, q.Threshold).Microseconds()
		return storerows.Place{Due: s.SilentSince().UnixMicro() + threshold, RunID: s.RunID}
	})
	return page, nil
}

// parsePlace understands what String wrote. Nothing is the beginning. selectEnded returns the runs that ended in
// transactions from the mark on. A mark is the oldest transaction that was still open when the mark was made: all
// before it are in its snapshot. The upper limit leaves out transaction numbers of another server, from which the
// rows may have been restored.
const selectEnded = `
	SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.text,
		CASE WHEN $1::pg_catalog.text {<>} '' THEN ARRAY(
			SELECT run_id FROM SCHEMA.watchdog_sessions WHERE ` + hasEnded + ` AND ended {>=} ` + markOf1 + `
				AND ended {<} pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())) END`

// Ended implements [session.Store]. While a transaction stays open, Ended returns the runs that ended since its start
// again at each call.
func (s *Store) Ended(ctx context.Context, mark string) (runIDs []string, next string, err error) {
	if _, err := strconv.ParseUint(mark, 10, 64); err != nil && mark != "" {
		return nil, "", storerows.MarkError(mark)
	}
	err = s.do(ctx, "ask for sessions that ended in", func(ctx context.Context) error {
		return s.onConn(ctx, func(conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, s.qualify(selectEnded), s.withMode(mark)...).Scan(&next, &runIDs)
		})
	})
	return runIDs, next, err
}

// dimensions are the SQL for the keys of a history. The reason stays JSON, in an object; decodeReasons decodes it. The
// server fails to read a payload with an escape such as \u0000, whatever field it is in, so such a payload stays whole.
var dimensions = map[session.Dimension]string{
	session.ByReason: `CASE WHEN pg_catalog.strpos(e.payload::pg_catalog.text, ` + escaped + `) {>} 0
		THEN e.payload::pg_catalog.text
		ELSE coalesce('{"reason":' {||} (e.payload {->} 'reason')::pg_catalog.text {||} '}', '') END`,
	session.ByDay:  `pg_catalog.to_char(e."timestamp" AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
	session.ByHost: `coalesce((SELECT s.host FROM SCHEMA.watchdog_sessions AS s WHERE s.run_id {=} e.aggregate_id), '')`,
}

const selectHistory = `
	SELECT %s, pg_catalog.count(*) FROM SCHEMA.events AS e
	WHERE e.event_type {=} $1 AND e.aggregate_type {=} $2 AND e."timestamp" {>=} $3 AND e."timestamp" {<} $4 GROUP BY 1`

// History implements [session.Store]. The counts are ordered by their keys.
func (s *Store) History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
	key, known := dimensions[h.By]
	if !known {
		return nil, storerows.DimensionError(h.By)
	}
	var counts []session.CancelCount
	err := s.do(ctx, "count cancels in", func(ctx context.Context) (err error) {
		counts, err = query(ctx, s, pgx.RowToStructByPos[session.CancelCount], fmt.Sprintf(selectHistory, key),
			watchdog.EventCancel, watchdog.AggregateType, h.From, h.To)
		return err
	})
	if h.By == session.ByReason {
		counts = decodeReasons(counts)
	}
	slices.SortFunc(counts, func(a, b session.CancelCount) int { return strings.Compare(a.Key, b.Key) })
	return counts, err
}

// decodeReasons decodes keys that are JSON objects, and adds up equal reasons. A reason of another writer that is not a
// string counts as none.
func decodeReasons(counts []session.CancelCount) (all []session.CancelCount) {
	for _, c := range counts {
		var fields map[string]json.RawMessage // the fields of a struct ignore case
		var text string
		_ = json.Unmarshal([]byte(c.Key), &fields)
		_ = json.Unmarshal(fields["reason"], &text)
		at := slices.IndexFunc(all, func(other session.CancelCount) bool { return other.Key == text })
		if at < 0 {
			all = append(all, session.CancelCount{Key: text, Count: c.Count})
			continue
		}
		all[at].Count += c.Count
	}
	return all
}
