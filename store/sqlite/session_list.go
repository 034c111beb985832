package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// List implements [session.Lister]. It reports rows whose creation cannot be read on the first page, at most a hundred.
func (s *Store) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	last, err := storeflow.AfterOf(q.After, q)
	if err != nil {
		return session.ListPage{}, err
	}
	unreadable := 0
	if q.After == "" {
		last.Due, unreadable = math.MaxInt64, storerows.MaxUnreadable
	}
	f, err := readAs(ctx, s, "sessions", func(r reading) (found, error) {
		return foundBy(r, selectList(q), last.Due, last.RunID,
			min(q.Limit, math.MaxInt32)+1, unreadable, q.Parent, q.Host, string(q.Reason))
	})
	if err != nil {
		return session.ListPage{}, err
	}
	page := storeflow.ListPage(f.now, f.rows, q.Limit)
	page.Unreadable = append(page.Unreadable, f.unreadable...)
	return page, nil
}

// What a search found: its rows in their order, and the errors of those that have no place.
type found struct {
	now        time.Time
	rows       []foundRow
	unreadable []error
}

// A foundRow is a session as selectSession returns it, and its place.
type foundRow struct {
	place storerows.Place
	text  string
}

func (r foundRow) Place() storerows.Place            { return r.place }
func (r foundRow) Session() (session.Session, error) { return readSession(r.text) }

// foundBy runs a search, each of whose rows is the time, a session with its place, or one that has none.
func foundBy(on querier, statement string, arguments ...any) (f found, err error) {
	err = eachRow(on, func(rows *sql.Rows) error {
		var kind, text string
		var at int64
		err := rows.Scan(&kind, &at, &text)
		switch kind {
		case "clock":
			f.now = time.UnixMicro(at).UTC()
		case "unreadable":
			f.unreadable = append(f.unreadable, whyUnreadable(text))
		default:
			runID, _, _ := strings.Cut(text, columnSeparator)
			f.rows = append(f.rows, foundRow{storerows.Place{Due: at, RunID: runID}, text})
		}
		return err
	}, statement, arguments...)
	return f, err
}

// whyUnreadable returns the error of a row whose times SQLite cannot compare.
func whyUnreadable(text string) error {
	one, err := readSession(text)
	if err == nil {
		err = fmt.Errorf("%w: run %s: SQLite cannot read its times", session.ErrUnreadable, one.RunID)
	}
	return err
}

// selectList finds a page of a list of sessions: a row with the time, the sessions, and those without a time of their
// creation. The parameters are the position of the last session of the page before (?1 and ?2), the limits of both
// (?3 and ?4), the parent, the host and the reason. All of them are in the statement, because it must not have more
// arguments than it has parameters.
func selectList(q session.ListQuery) string {
	index, conditions := listIndex(q)
	return strings.NewReplacer("{row}", sessionText, "{index}", index, "{conditions}", conditions).Replace(`
	SELECT 'clock', ` + databaseMicros + `, '' WHERE ?5 IS NOT NULL AND ?6 IS NOT NULL AND ?7 IS NOT NULL
	UNION ALL SELECT * FROM (
		SELECT 'listed', created, {row} FROM main.watchdog_sessions INDEXED BY {index}
		WHERE {conditions} AND (created, run_id) < (?1, ?2) ORDER BY created DESC, run_id DESC LIMIT ?3 + 0)
	UNION ALL SELECT * FROM (
		SELECT 'unreadable', 0, {row} FROM main.watchdog_sessions INDEXED BY {index}
		WHERE {conditions} AND created IS NULL LIMIT ?4 + 0)`)
}

// hasFailed is what [session.Session.Failed] is.
const hasFailed = `(+status = 'finished' AND +reason = 'complete' AND coalesce(
	CASE WHEN json_valid(state) THEN json_extract(state, '$.outcome') END = 'failed', 0))`

// listIndex returns the index that leaves out most, and the conditions of a list.
func listIndex(q session.ListQuery) (index, conditions string) {
	index = "watchdog_sessions_created"
	all := []string{"TRUE"}
	switch {
	case q.Live == q.Ended:
	case q.Live:
		index, all = "watchdog_sessions_live", append(all, isLive)
	default:
		all = append(all, `+status <> 'active'`)
	}
	switch q.Reason {
	case "":
	case session.ReasonFailed:
		all = append(all, hasFailed)
	default:
		all = append(all, `+reason = ?7`, `NOT `+hasFailed)
	}
	if q.Host != "" {
		index, all = "watchdog_sessions_host", append(all, `host = ?6`)
	}
	if q.Parent != "" {
		index, all = "watchdog_sessions_parent", append(all, hasParent, `parent = ?5`)
	}
	return index, strings.Join(all, " AND ")
}

// Session implements [session.Store].
func (s *Store) Session(ctx context.Context, runID string) (session.Session, error) {
	return readAs(ctx, s, "session "+runID, func(r reading) (session.Session, error) { return sessionBy(r, runID) })
}

// The SQL for the keys of a history. An event of another writer may have no reason, one that is not a text, and no
// JSON.
var historyKeys = map[session.Dimension]string{
	session.ByReason: `CASE WHEN NOT json_valid(e.payload) THEN ''
		WHEN json_type(e.payload, '$.reason') = 'text' THEN json_extract(e.payload, '$.reason') ELSE '' END`,
	session.ByDay: `substr(e.at, 1, 10)`,
	session.ByHost: `coalesce((SELECT host FROM main.watchdog_sessions
		WHERE run_id = e.aggregate_id COLLATE BINARY), '')`,
}

// selectHistory converts the times of other writers to our form, to the millisecond, if SQLite understands them.
const selectHistory = ` AS key, count(*) FROM (
		SELECT aggregate_id, CAST(payload AS TEXT) AS payload,
			CASE WHEN timestamp GLOB '????-??-?? ??:??:??.??????' THEN CAST(timestamp AS TEXT)
			ELSE strftime('%Y-%m-%d %H:%M:%f', timestamp) || '000' END AS at
		FROM main.events WHERE event_type = ?1 COLLATE BINARY AND aggregate_type = ?2 COLLATE BINARY) AS e
	WHERE e.at >= ?3 AND e.at < ?4 GROUP BY key ORDER BY key`

// History implements [session.Store]. The counts are ordered by their keys. It does not count events of other writers
// whose times SQLite does not understand. It reads all stored cancels.
func (s *Store) History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
	key, known := historyKeys[h.By]
	if !known {
		return nil, storerows.DimensionError(h.By)
	}
	return readRows(ctx, s, "the history of cancels", scanCount, "SELECT "+key+selectHistory,
		watchdog.EventCancel, watchdog.AggregateType, formatTime(h.From), formatTime(h.To))
}

func scanCount(rows *sql.Rows) (c session.CancelCount, err error) {
	err = rows.Scan(&c.Key, &c.Count)
	return c, err
}
