package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// A timestamp of another writer may have a form that does not sort as text. isForeignTime is the condition of the
// partial index of such rows, which a query must repeat word for word. Select reads those of its aggregate.
const (
	timeForm = `[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] ` +
		`[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]`
	isForeignTime = `(typeof(timestamp) <> 'text' OR timestamp NOT GLOB '` + timeForm + `')`
	isOwnTime     = `typeof(timestamp) = 'text' AND timestamp GLOB '` + timeForm + `'`
)

const (
	eventColumns = `id, event_type, CAST(payload AS TEXT), CAST(timestamp AS TEXT), consensus_id`
	ofAggregate  = `aggregate_type = ?1 COLLATE BINARY AND aggregate_id = ?2 COLLATE BINARY`
	// selectSelection finds a superset of a selection, with some rows twice. Each part uses an index. The parameters are
	// the aggregate, a JSON array of IDs, Since (NULL for none) and a JSON array of the types of LatestOf. The + before a
	// column keeps SQLite from reading the aggregate to find an ID. The + before a parameter keeps it from comparing the
	// value with the condition of the index of layers: it would prepare the statement anew for each call, at ten times
	// the cost. The latest time is looked up by itself, and not without types: a sort by time and ID would go on to the
	// event before, and a search for no type to the first one. What the caller knows, as ?6 (Until) and ?7 (Known) say, is
	// counted in the index, and only if no timestamp is another writer's: that is asked for an ID, because the index of
	// aggregates, which has none, would be searched from end to end.
	selectSelection = `SELECT ` + eventColumns + ` FROM main.events
		WHERE id COLLATE BINARY IN (SELECT value FROM json_each(?3))
			AND +aggregate_type = +?1 COLLATE BINARY AND +aggregate_id = +?2 COLLATE BINARY
	UNION ALL SELECT ` + eventColumns + ` FROM main.events WHERE ` + ofAggregate + ` AND timestamp >=
			CASE WHEN ?7 > 0 AND ?7 = (SELECT count(*) FROM (SELECT 1 FROM main.events
					WHERE ` + ofAggregate + ` AND timestamp >= ?4 AND timestamp < ?6 LIMIT ?7 + 1))
				AND (SELECT id FROM main.events WHERE ` + ofAggregate + ` AND ` + isForeignTime + ` LIMIT 1) IS NULL
			THEN ?6 ELSE ?4 END
	UNION ALL SELECT ` + eventColumns + ` FROM main.events
		WHERE ` + ofAggregate + ` AND timestamp = (SELECT timestamp FROM main.events
			WHERE ` + ofAggregate + ` AND timestamp < ?4 AND ` + isOwnTime + `
				AND event_type IN (SELECT value FROM json_each(?5)) AND ?5 <> '[]' ORDER BY timestamp DESC LIMIT 1)
	UNION ALL SELECT ` + eventColumns + ` FROM main.events
		WHERE ` + ofAggregate + ` AND ` + isForeignTime + ` AND ?4 IS NOT NULL`
)

// Select implements [event.TransactionalStore], with one query. It reads what it selects, and besides the events of
// the aggregate whose timestamps another program wrote in a form of its own. If one of these cannot be read, Select
// returns an error that names the row, as Read does. Unlike Read, it does not see unreadable rows of the form
// "2006-01-02 15:04:05.000000" that it has not to read.
func (s *Store) Select(ctx context.Context, selection event.Selection) ([]event.Event, error) {
	return readAs(ctx, s, "events", func(r reading) ([]event.Event, error) {
		r.lazy = &s.selection
		return selected(r, selection)
	})
}

func selected(on querier, s event.Selection) ([]event.Event, error) {
	if s.Until.IsZero() {
		s.Known = 0
	}
	events, err := rowsOf(on, scanEvent(s.AggregateType, s.AggregateID), selectSelection, s.AggregateType, s.AggregateID,
		jsonArray(s.IDs), nullTime(s.Since), jsonArray(s.LatestOf), nullTime(s.Until), max(s.Known, 0))
	return selectedOf(events, s), err
}

// jsonArray is the array of what has only texts and numbers, which can always be encoded.
func jsonArray[T any](all []T) string {
	if len(all) == 0 {
		return "[]"
	}
	array, _ := json.Marshal(all)
	return string(array)
}

// selectedOf keeps what a selection selects of the events that were found, each once, in their order.
func selectedOf(events []event.Event, s event.Selection) []event.Event {
	slices.SortStableFunc(events, event.Event.Compare)
	events = slices.CompactFunc(events, func(a, b event.Event) bool { return a.ID == b.ID })
	from, latest := len(events), ""
	if !s.Since.IsZero() {
		since := event.Event{Timestamp: storeflow.Truncate(s.Since)} // comes before every event of that time: it has no ID
		from, _ = slices.BinarySearchFunc(events, since, event.Event.Compare)
		for _, e := range events[:from] {
			if slices.Contains(s.LatestOf, e.Type) {
				latest = e.ID
			}
		}
	}
	kept := events[:0]
	for i, e := range events {
		if i >= from || e.ID == latest || slices.Contains(s.IDs, e.ID) {
			kept = append(kept, e)
		}
	}
	return kept
}

// selectMany is selectSelection for many selections without LatestOf, with the number of the selection before each row.
// The parameter is a JSON array of what askedOf returns, which is read once. By CROSS JOIN each lookup uses an index.
const selectMany = `WITH asked AS MATERIALIZED (
		SELECT key AS n, json_extract(value, '$[0]') AS kind, json_extract(value, '$[1]') AS run,
			nullif(json_extract(value, '$[2]'), '') AS since, value AS texts FROM json_each(?1))
	SELECT n, ` + eventColumns + ` FROM asked CROSS JOIN main.events
		WHERE aggregate_type = kind COLLATE BINARY AND aggregate_id = run COLLATE BINARY AND timestamp >= since
	UNION ALL SELECT n, ` + eventColumns + ` FROM asked CROSS JOIN main.events
		WHERE aggregate_type = kind COLLATE BINARY AND aggregate_id = run COLLATE BINARY AND since IS NOT NULL
			AND ` + isForeignTime + `
	UNION ALL SELECT n, ` + eventColumns + ` FROM (
		SELECT n, kind, run, one.value AS name FROM asked CROSS JOIN json_each(texts) AS one WHERE one.key >= 3) AS named
		CROSS JOIN main.events WHERE id COLLATE BINARY = name
			AND +aggregate_type = kind COLLATE BINARY AND +aggregate_id = run COLLATE BINARY`

// askedOf returns the selections as selectMany reads them: each is its aggregate, Since, empty for none, and its IDs.
func askedOf(exchanges []*event.Exchange) [][]string {
	asked, texts := make([][]string, len(exchanges)), make([]string, 0, 5*len(exchanges)) // most have two IDs
	for i, x := range exchanges {
		first, since := len(texts), ""
		if !x.Since.IsZero() {
			since = formatTime(x.Since)
		}
		texts = append(append(texts, x.AggregateType, x.AggregateID, since), x.IDs...)
		asked[i] = texts[first:]
	}
	return asked
}

func (t *transaction) selectMany(exchanges []*event.Exchange, all [][]event.Event) error {
	err := eachRow(t, func(rows *sql.Rows) error {
		var r eventRow
		var n int
		if err := r.scan(rows, &n); err != nil {
			return err
		}
		e, err := r.event(exchanges[n].AggregateType, exchanges[n].AggregateID)
		all[n] = append(all[n], e)
		return err
	}, selectMany, jsonArray(askedOf(exchanges)))
	for i, x := range exchanges {
		all[i] = selectedOf(all[i], x.Selection)
	}
	return err
}

// parentOf is the parent that a payload names, and NULL if there is none. It is the expression of an index, and a query
// must repeat it word for word. It never fails: with an index that does, a host could not write rows without JSON. The
// + of isLayer keeps SQLite from an index on the aggregate type, which finds all runs.
const (
	parentOf = `CASE WHEN NOT json_valid(CAST(payload AS TEXT)) THEN NULL
		WHEN json_type(CAST(payload AS TEXT), '$.parent') = 'text'
		THEN json_extract(CAST(payload AS TEXT), '$.parent') END`
	isLayer = `+aggregate_type = '` + event.AggregateType + `' COLLATE BINARY AND ` + parentOf + ` IS NOT NULL`

	selectLayers = `SELECT DISTINCT aggregate_id COLLATE BINARY FROM main.events
	WHERE ` + isLayer + ` AND ` + parentOf + ` = ?1 ORDER BY 1`
)

// Layers implements [event.LayerStore]. A row of another program whose payload is not JSON has no parent.
func (s *Store) Layers(ctx context.Context, parent string) ([]string, error) {
	return readRows(ctx, s, "layers", scanOne[string], selectLayers, parent)
}
