package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// selectStalled finds stalled sessions. There is always a row, and each row has the time and the unreadable run IDs.
// Sessions without a lease are in one index, and those with a threshold of their own in another. Those of leases are
// quiet, and again in two indexes, each lease in a range of its own. Each part is limited, and has the order of its
// index, without which the planner would read the whole table. pageOf merges the parts.
//
// The parts return run IDs, and what a lease says of a quiet run. What a session is made of is looked up once for each
// ID: the executor makes ready what each part returns, also where it finds nothing, and that was half of the time of a
// search.
//
// The limit of all parts together leaves nothing out. Without it the planner expects so many rows, where millions are
// active, that it has the statement compiled (JIT), which takes longer than any search.
//
// The parameters are in a select of their own, so that the planner does not see their values. It then uses one plan for
// all values, and plans a prepared statement only once: planning takes five times as long as the rest.
//
//   - $1 and $2: the threshold and the minimum age, in microseconds
//   - $3: the limit
//   - ($4, $6): where the part with the query's threshold begins
//   - ($5, $6): where the part with own thresholds begins
//   - $7: how many unreadable rows to return at most
//   - $8: the threshold in nanoseconds
//   - ($9, $6) and ($10, $6): as $4 and $5, in microseconds since 1970
//
// The place of a quiet session is by the database's clock, as it was when the lease was renewed, in microseconds. Those
// of one lease have the order of the index, because what is in it are whole microseconds.
const (
	stalledParameters = `(
		SELECT {now} AS now, $3::bigint AS most, $6::{text} AS after,
			{now} {-} ($1::bigint {*} interval '1 microsecond') AS silent_before,
			{now} {-} ($2::bigint {*} interval '1 microsecond') AS made_before,
			$4::pg_catalog.timestamptz AS silent, $5::pg_catalog.timestamptz AS due,
			$1::bigint AS threshold, $8::bigint AS nanoseconds, $9::bigint AS silent_micros, $10::bigint AS due_micros,
			ARRAY(SELECT run_id FROM SCHEMA.watchdog_sessions
				WHERE ` + isUnreadable + ` LIMIT (SELECT $7::bigint)) AS unreadable OFFSET 0
	) AS p`

	// livingLeases have the microsecond at which the clock of a lease was at zero, by the database's clock.
	livingLeases = `(
				SELECT id, vouched, covered, behind,
					(extract(epoch FROM renewed_at) {*} 1000000)::bigint {-} (clock {/} 1000) AS zero
				FROM SCHEMA.watchdog_leases WHERE expired IS NULL OFFSET 0
			) AS l`
	isLive = `s.status {=} 'active' AND s.readable AND s.created_at {<=} p.made_before`

	selectStalled = `
	SELECT {send}(p.now), p.unreadable, found.place, session.*
	FROM ` + stalledParameters + ` LEFT JOIN LATERAL (
		(SELECT NULL::bigint AS place, run_id, NULL::bigint AS silence, NULL::boolean AS behind
		FROM SCHEMA.watchdog_sessions
		WHERE ` + hasDefaultThreshold + ` AND (silent, run_id) {>} (p.silent, p.after) AND silent {<} p.silent_before
			AND created_at {<=} p.made_before
		ORDER BY silent, run_id LIMIT p.most)
		UNION ALL
		(SELECT NULL::bigint, run_id, NULL::bigint, NULL::boolean FROM SCHEMA.watchdog_sessions AS s
		WHERE ` + hasOwnThreshold + ` AND (s.due, run_id) {>} (p.due, p.after) AND s.due {<} p.now
			AND created_at {<=} p.made_before
		ORDER BY s.due, run_id LIMIT p.most)
		UNION ALL
		(SELECT l.zero {+} (s.quiet {/} 1000) {+} s.threshold AS place, s.run_id, ` + ofSilence + `, ` + isBehind + `
		FROM ` + livingLeases + ` CROSS JOIN LATERAL (
			(SELECT s.quiet_since AS quiet, p.threshold, s.run_id, s.attempt, s.activity
			FROM SCHEMA.watchdog_sessions AS s
			WHERE s.lease {=} l.id AND s.quiet_since {<} (` + vouchedFor + ` {+} 1000 {-} p.nanoseconds)
				AND (s.quiet_since, s.run_id) {>} ((p.silent_micros {-} l.zero) {*} 1000, p.after)
				AND ` + ofVouched + ` {-} s.activity {>} p.nanoseconds AND ` + isLive + `
			ORDER BY s.quiet_since, s.run_id LIMIT p.most)
			UNION ALL
			(SELECT s.quiet_due, 0::bigint, s.run_id, s.attempt, s.activity FROM SCHEMA.watchdog_sessions AS s
			WHERE s.lease {=} l.id AND s.quiet_due {<} (` + vouchedFor + ` {+} 1000)
				AND (s.quiet_due, s.run_id) {>} ((p.due_micros {-} l.zero) {*} 1000, p.after)
				AND ` + ofVouched + ` {-} s.activity {>} CASE WHEN s.allowance IS NULL
					THEN s.threshold ELSE greatest(s.allowance, p.nanoseconds) END AND ` + isLive + `
			ORDER BY s.quiet_due, s.run_id LIMIT p.most)
		) AS s ORDER BY place, s.run_id LIMIT p.most)
		LIMIT p.most {*} 3
	) AS found ON true LEFT JOIN LATERAL (
		SELECT` + beforeSilence + `found.silence` + beforeBehind + `found.behind` + afterBehind + `
		FROM SCHEMA.watchdog_sessions AS s WHERE s.run_id {=} found.run_id OFFSET 0
	) AS session ON true`
)

// Stalled implements [session.Store], in one round trip. Sessions that exceeded their thresholds at the same time are
// ordered by run ID. The first page reports unreadable rows, at most a hundred.
func (s *Store) Stalled(ctx context.Context, q session.Query) (page session.Page, err error) {
	last, err := storeflow.AfterOf(q.After, q)
	if err != nil {
		return session.Page{}, err
	}
	err = s.do(ctx, "find stalled sessions in", func(ctx context.Context) error {
		rows, err := query(ctx, s, scanStalled(q), selectStalled, stalledArguments(q, last)...)
		if err == nil {
			page = pageOf(rows, q.Limit)
		}
		return err
	})
	return page, err
}

func stalledArguments(q session.Query, last session.Place) []any {
	threshold := q.Threshold.Microseconds()
	silent := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	due, unreadable := silent, session.MaxUnreadable
	var silentMicros, dueMicros int64 // a lease began after 1970
	if q.After != "" {
		silent = pgtype.Timestamptz{Time: time.UnixMicro(last.Due - threshold), Valid: true}
		due, unreadable = pgtype.Timestamptz{Time: time.UnixMicro(last.Due), Valid: true}, 0
		silentMicros, dueMicros = max(last.Due-threshold, 0), max(last.Due, 0)
	}
	limit := min(q.Limit, math.MaxInt32) + 1 // one more, to know whether there is a next page
	return []any{
		threshold, storeflow.RoundUp(q.MinAge), limit, silent, due, last.RunID, unreadable,
		int64(q.Threshold), silentMicros, dueMicros,
	}
}

// A stalledRow is a row of selectStalled.
type stalledRow struct {
	sessionRow
	now        instant
	unreadable []string
	due        pgtype.Int8   // NULL for a session without a lease
	asked      time.Duration // the threshold of the query
}

func scanStalled(q session.Query) pgx.RowToFunc[*stalledRow] {
	return func(row pgx.CollectableRow) (*stalledRow, error) {
		r := &stalledRow{asked: q.Threshold}
		return r, row.Scan(r.scanInto(&r.now, &r.unreadable, &r.due)...)
	}
}

func (r *stalledRow) Place() session.Place {
	place := session.Place{Due: r.due.Int64, RunID: r.runID.String}
	if !r.due.Valid {
		own := time.Duration(r.threshold.Int64)
		place.Due = cmp.Or(r.lastEvent.Time, r.created.Time).UnixMicro() + cmp.Or(own, r.asked).Microseconds()
	}
	return place
}

func pageOf(rows []*stalledRow, limit int) session.Page {
	page := storeflow.StalledPage(rows[0].now.Time, found(rows), limit)
	for _, runID := range rows[0].unreadable {
		page.Unreadable = append(page.Unreadable, unreadable(runID))
	}
	return page
}

// dimensions are the SQL for the keys of a history. The reason stays JSON, in an object; decodeReasons decodes it. The
// server fails to read a payload with an escape such as \u0000, whatever field it is in, so such a payload stays whole.
var dimensions = map[session.Dimension]string{
	session.ByReason: `CASE WHEN pg_catalog.strpos(e.payload::{text}, ` + escaped + `) {>} 0
		THEN e.payload::{text}
		ELSE coalesce('{"reason":' {||} (e.payload {->} 'reason')::{text} {||} '}', '') END`,
	session.ByDay:  `pg_catalog.to_char(e."timestamp" AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
	session.ByHost: `coalesce((SELECT s.host FROM SCHEMA.watchdog_sessions AS s WHERE s.run_id {=} e.aggregate_id), '')`,
}

const selectHistory = `
	SELECT %s, pg_catalog.count(*) FROM SCHEMA.events AS e
	WHERE e.event_type {=} $1 AND e.aggregate_type {=} $2 AND e."timestamp" {>=} $3 AND e."timestamp" {<} $4 GROUP BY 1`

// History implements [session.Store]. The counts are ordered by their keys.
func (s *Store) History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	counts, err := ask(ctx, s, s.do, "count cancels in", pgx.RowToStructByPos[session.CancelCount],
		fmt.Sprintf(selectHistory, dimensions[h.By]), event.Cancel, event.AggregateType, h.From, h.To)
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
		text := textIn(c.Key, "reason")
		at := slices.IndexFunc(all, func(other session.CancelCount) bool { return other.Key == text })
		if at < 0 {
			all = append(all, session.CancelCount{Key: text, Count: c.Count})
			continue
		}
		all[at].Count += c.Count
	}
	return all
}
