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

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// selectStalled finds stalled sessions, with the time and those that cannot be read in every row; there is always one. Sessions with a threshold of their own are in another index than
// those without; each half is in the order of its index, without which the planner would read the whole table, and limited. The two are merged outside.
//
// What is asked for is hidden from the planner in selects of their own. It then takes the same plan for all values, and so, where a statement is prepared, makes it once: making it takes five times as long as
// the rest.
//
// $1 is the threshold and $2 the minimal age, in microseconds; $3 the limit; ($4, $6) where the half of the shared threshold begins, ($5, $6) the other; $7 how many unreadable rows there may be.
const selectStalled = `
	SELECT statement_timestamp(), ARRAY(SELECT run_id FROM SCHEMA.watchdog_sessions WHERE ` + isUnreadable + ` LIMIT (SELECT $7::bigint)), found.*
	FROM (VALUES (1)) AS one LEFT JOIN (
		(SELECT` + sessionFields + `FROM SCHEMA.watchdog_sessions
		WHERE ` + hasDefaultThreshold + ` AND (silent, run_id) > ((SELECT $4::timestamptz), $6::text)
			AND silent < (SELECT statement_timestamp() - $1::bigint * interval '1 microsecond')
			AND created_at <= (SELECT statement_timestamp() - $2::bigint * interval '1 microsecond')
		ORDER BY silent, run_id LIMIT (SELECT $3::bigint))
		UNION ALL
		(SELECT` + sessionFields + `FROM SCHEMA.watchdog_sessions
		WHERE ` + hasOwnThreshold + ` AND (due, run_id) > ((SELECT $5::timestamptz), $6::text)
			AND due < (SELECT statement_timestamp())
			AND created_at <= (SELECT statement_timestamp() - $2::bigint * interval '1 microsecond')
		ORDER BY due, run_id LIMIT (SELECT $3::bigint))
	) AS found ON true`

// maxUnreadable is how many rows that cannot be read a page tells of.
const maxUnreadable = 100

// Stalled implements [session.Store], in one round trip. Of sessions that exceeded their thresholds at one time, those come first whose run ID does. The first page tells of unreadable
// rows, at most a hundred.
func (s *Store) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	last, err := parsePlace(q.After)
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

func stalledArguments(q session.Query, last place) []any {
	silent := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	due, unreadable := silent, maxUnreadable
	if q.After != "" {
		silent = pgtype.Timestamptz{Time: time.UnixMicro(last.due - q.Threshold.Microseconds()), Valid: true}
		due, unreadable = pgtype.Timestamptz{Time: time.UnixMicro(last.due), Valid: true}, 0
	}
	minAge := (q.MinAge + time.Microsecond - 1).Microseconds()
	return []any{q.Threshold.Microseconds(), minAge, min(q.Limit, math.MaxInt32) + 1, silent, due, last.runID, unreadable}
}

// A stalledRow is a row of selectStalled.
type stalledRow struct {
	sessionRow
	now        time.Time
	unreadable []string
}

func scanStalled(row pgx.CollectableRow) (r stalledRow, err error) {
	err = row.Scan(r.scanInto(&r.now, &r.unreadable)...)
	return r, err
}

// pageOf merges the two halves.
func pageOf(rows []stalledRow, q session.Query) (session.Page, error) {
	page := session.Page{Now: rows[0].now.UTC()}
	for _, runID := range rows[0].unreadable {
		page.Unreadable = append(page.Unreadable, unreadable(runID))
	}
	for _, r := range rows {
		if !r.runID.Valid {
			break // there is none
		}
		one, err := r.session()
		if err != nil {
			return session.Page{}, err
		}
		page.Sessions = append(page.Sessions, one)
	}
	slices.SortFunc(page.Sessions, func(a, b session.Session) int { return placeIn(q, a).compare(placeIn(q, b)) })
	if len(page.Sessions) > q.Limit {
		page.Sessions = slices.Clip(page.Sessions[:q.Limit])
		page.Next = placeIn(q, page.Sessions[q.Limit-1]).String()
	}
	return page, nil
}

// A place is where a session stands among those that are stalled.
type place struct {
	due   int64 // when it exceeded its threshold, in microseconds since 1970
	runID string
}

func placeIn(q session.Query, s session.Session) place {
	return place{s.SilentSince().UnixMicro() + cmp.Or(s.Threshold, q.Threshold).Microseconds(), s.RunID}
}

// String is the form in which a place begins the next page.
func (p place) String() string { return strconv.FormatInt(p.due, 10) + " " + p.runID }

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.due, other.due), strings.Compare(p.runID, other.runID))
}

// parsePlace understands what String wrote. Nothing is the beginning.
func parsePlace(text string) (place, error) {
	if text == "" {
		return place{}, nil
	}
	due, runID, found := strings.Cut(text, " ")
	at, err := strconv.ParseInt(due, 10, 64)
	if err != nil || !found {
		return place{}, fmt.Errorf("find stalled sessions: %q is not where a page ended; pass the Next of the page before", text)
	}
	return place{at, runID}, nil
}

// selectEnded tells what ended in transactions that had not all ended at the mark. What the mark's own snapshot had in it all comes before it. The upper end leaves out numbers of
// another server, from which the rows may have been restored.
const selectEnded = `
	SELECT pg_snapshot_xmin(pg_current_snapshot())::text, CASE WHEN $1::text <> '' THEN ARRAY(
		SELECT run_id FROM SCHEMA.watchdog_sessions
		WHERE ` + hasEnded + ` AND ended >= nullif($1, '')::xid8 AND ended < pg_snapshot_xmax(pg_current_snapshot())) END`

// Ended implements [session.Store]. While a transaction is open for long, those that ended since it began are returned again each time.
func (s *Store) Ended(ctx context.Context, mark string) (runIDs []string, next string, err error) {
	if _, err := strconv.ParseUint(mark, 10, 64); err != nil && mark != "" {
		return nil, "", fmt.Errorf("ask for sessions that ended: %q is not a mark; pass what the call before returned, or nothing", mark)
	}
	err = s.do(ctx, "ask for sessions that ended in", func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.qualify(selectEnded), s.withMode(mark)...).Scan(&next, &runIDs)
	})
	return runIDs, next, err
}

// dimensions are the SQL for what cancels are counted by. The reason is taken out of the payload as it is written there, because not everything that JSON can spell is text to PostgreSQL.
var dimensions = map[session.Dimension]string{
	session.ByReason: `coalesce((e.payload -> 'reason')::text, '')`,
	session.ByDay:    `to_char(e."timestamp" AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
	session.ByHost:   `coalesce((SELECT s.host FROM SCHEMA.watchdog_sessions AS s WHERE s.run_id = e.aggregate_id), '')`,
}

const selectHistory = `
	SELECT %s, count(*) FROM SCHEMA.events AS e
	WHERE e.event_type = $1 AND e.aggregate_type = $2 AND e."timestamp" >= $3 AND e."timestamp" < $4 GROUP BY 1`

// History implements [session.Store]. The counts are ordered by their keys.
func (s *Store) History(ctx context.Context, h session.History) ([]session.Count, error) {
	key, there := dimensions[h.By]
	if !there {
		return nil, fmt.Errorf("count cancels: there is no dimension %q", h.By)
	}
	var counts []session.Count
	err := s.do(ctx, "count cancels in", func(ctx context.Context) (err error) {
		counts, err = query(ctx, s, pgx.RowToStructByPos[session.Count], fmt.Sprintf(selectHistory, key),
			watchdog.EventCancel, watchdog.AggregateType, h.From, h.To)
		return err
	})
	if h.By == session.ByReason {
		counts = decodeReasons(counts)
	}
	slices.SortFunc(counts, func(a, b session.Count) int { return strings.Compare(a.Key, b.Key) })
	return counts, err
}

// spelled reads keys that are JSON. A cancel of another writer may have a reason that is no text.
func decodeReasons(counts []session.Count) (all []session.Count) {
	for _, c := range counts {
		var text string
		_ = json.Unmarshal([]byte(c.Key), &text)
		at := slices.IndexFunc(all, func(other session.Count) bool { return other.Key == text })
		if at < 0 {
			all = append(all, session.Count{Key: text, Count: c.Count})
			continue
		}
		all[at].Count += c.Count
	}
	return all
}
