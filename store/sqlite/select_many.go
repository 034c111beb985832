package sqlite

import (
	"context"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// selectMany is selectSelection for many selections without LatestOf, with the number of the selection before each row.
// The parameter is a JSON array of an asked for each. CROSS JOIN keeps the order of the tables, so that each lookup
// uses an index.
const selectMany = `
	SELECT n, ` + eventColumns + ` FROM (` + askedAggregates + `) AS asked CROSS JOIN main.events
		WHERE aggregate_type = kind COLLATE BINARY AND aggregate_id = run COLLATE BINARY AND timestamp >= since
	UNION ALL SELECT n, ` + eventColumns + ` FROM (` + askedAggregates + `) AS asked CROSS JOIN main.events
		WHERE aggregate_type = kind COLLATE BINARY AND aggregate_id = run COLLATE BINARY AND since IS NOT NULL
			AND ` + isForeignTime + `
	UNION ALL SELECT n, ` + eventColumns + ` FROM (
		SELECT n, kind, run, one.value AS name FROM (` + askedAggregates + `) AS asked CROSS JOIN json_each(ids) AS one
		) AS named CROSS JOIN main.events
		WHERE id COLLATE BINARY = name
			AND +aggregate_type = kind COLLATE BINARY AND +aggregate_id = run COLLATE BINARY`

const askedAggregates = `SELECT key AS n, json_extract(value, '$.kind') AS kind, json_extract(value, '$.run') AS run,
		json_extract(value, '$.since') AS since, json_extract(value, '$.ids') AS ids FROM json_each(?1)`

// asked is a selection as selectMany reads it. Without Since or IDs it has none.
type asked struct {
	Kind  string   `json:"kind"`
	Run   string   `json:"run"`
	Since string   `json:"since,omitempty"`
	IDs   []string `json:"ids,omitempty"`
}

func askedOf(s watchdog.Selection) asked {
	a := asked{Kind: s.AggregateType, Run: s.AggregateID, IDs: s.IDs}
	if !s.Since.IsZero() {
		a.Since = formatTime(s.Since)
	}
	return a
}

// selectedAll returns what each selection selects, with one query if it can.
func (t *transaction) selectedAll(exchanges []*watchdog.Exchange) ([][]watchdog.Event, error) {
	all := make([][]watchdog.Event, len(exchanges))
	latest := func(x *watchdog.Exchange) bool { return len(x.LatestOf) > 0 }
	if len(exchanges) > 1 && !slices.ContainsFunc(exchanges, latest) {
		return all, t.selectMany(exchanges, all)
	}
	for i, x := range exchanges {
		var err error
		if all[i], err = t.selected(x.Selection); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (t *transaction) selectMany(exchanges []*watchdog.Exchange, all [][]watchdog.Event) error {
	prepared, err := t.prepare(selectMany) //nolint:sqlclosecheck // kept as long as the writer
	if err != nil {
		return err
	}
	selections := make([]asked, len(exchanges))
	for i, x := range exchanges {
		selections[i] = askedOf(x.Selection)
	}
	rows, err := prepared.QueryContext(context.Background(), jsonArray(selections))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	for rows.Next() {
		var r eventRow
		var n int
		if err := r.scan(rows, &n); err != nil {
			return err
		}
		e, err := r.event(exchanges[n].AggregateType, exchanges[n].AggregateID)
		if err != nil {
			return err
		}
		all[n] = append(all[n], e)
	}
	for i, x := range exchanges {
		all[i] = selectOf(all[i], x.Selection)
	}
	return rows.Err()
}
