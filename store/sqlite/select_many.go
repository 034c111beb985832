package sqlite

import (
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// selectMany is selectSelection for many selections without LatestOf, with the number of the selection before each row.
// The parameters are JSON arrays: of the aggregates with Since, and of the IDs with their selection's number and
// aggregate. CROSS JOIN keeps the order of the tables, so that each lookup uses an index.
const selectMany = `
	SELECT n, ` + eventColumns + ` FROM (` + askedAggregates + `) AS asked CROSS JOIN main.events
		WHERE aggregate_type = kind COLLATE BINARY AND aggregate_id = run COLLATE BINARY AND timestamp >= since
	UNION ALL SELECT n, ` + eventColumns + ` FROM (` + askedAggregates + `) AS asked CROSS JOIN main.events
		WHERE aggregate_type = kind COLLATE BINARY AND aggregate_id = run COLLATE BINARY AND since IS NOT NULL
			AND ` + isForeignTime + `
	UNION ALL SELECT n, ` + eventColumns + ` FROM (
		SELECT json_extract(value, '$[0]') AS n, json_extract(value, '$[1]') AS name, json_extract(value, '$[2]') AS kind,
			json_extract(value, '$[3]') AS run FROM json_each(?2)) AS named CROSS JOIN main.events
		WHERE id COLLATE BINARY = name
			AND +aggregate_type = kind COLLATE BINARY AND +aggregate_id = run COLLATE BINARY`

const askedAggregates = `SELECT key AS n, json_extract(value, '$[0]') AS kind, json_extract(value, '$[1]') AS run,
		json_extract(value, '$[2]') AS since FROM json_each(?1)`

// selectedAll returns what each selection selects, with one query if it can.
func (t *transaction) selectedAll(exchanges []*watchdog.Exchange) ([][]watchdog.Event, error) {
	all := make([][]watchdog.Event, len(exchanges))
	latest := func(x *watchdog.Exchange) bool { return len(x.LatestOf) > 0 }
	if len(exchanges) > 1 && !slices.ContainsFunc(exchanges, latest) {
		return all, t.selectMany(exchanges, all)
	}
	for i, x := range exchanges {
		var err error
		if all[i], err = selected(t, x.Selection); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (t *transaction) selectMany(exchanges []*watchdog.Exchange, all [][]watchdog.Event) error {
	err := eachRow(t, func(rows *sql.Rows) error {
		var r eventRow
		var n int
		if err := r.scan(rows, &n); err != nil {
			return err
		}
		e, err := r.event(exchanges[n].AggregateType, exchanges[n].AggregateID)
		all[n] = append(all[n], e)
		return err
	}, selectMany, manyArguments(exchanges)...)
	for i, x := range exchanges {
		all[i] = selectedOf(all[i], x.Selection)
	}
	return err
}

func manyArguments(exchanges []*watchdog.Exchange) []any {
	asked, named := make([][3]any, len(exchanges)), make([][4]any, 0, 2*len(exchanges))
	for i, x := range exchanges {
		asked[i] = [3]any{x.AggregateType, x.AggregateID, nullTime(x.Since)}
		for _, id := range x.IDs {
			named = append(named, [4]any{i, id, x.AggregateType, x.AggregateID})
		}
	}
	first, _ := json.Marshal(asked) // texts and numbers can always be encoded
	second, _ := json.Marshal(named)
	return []any{string(first), string(second)}
}
