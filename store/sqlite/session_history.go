package sqlite

import (
	"context"
	"database/sql"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// Session implements [session.Store].
func (s *Store) Session(ctx context.Context, runID string) (one session.Session, err error) {
	err = s.read(ctx, "session "+runID, func() (err error) {
		one, err = sessionBy(reading{ctx: ctx, store: s}, runID)
		return err
	})
	return one, err
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
const selectHistory = `
	 AS key, count(*) FROM (
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
