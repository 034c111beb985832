package sqlite

import (
	"database/sql"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// selectMany is selectSelection for many selections without LatestOf, with the number of the selection before each row.
// The parameter is a JSON array of what askedOf returns, which is read once. CROSS JOIN keeps the order of the tables,
// so that each lookup uses an index.
const selectMany = `
	WITH asked AS MATERIALIZED (
		SELECT key AS n, json_extract(value, '$[0]') AS kind, json_extract(value, '$[1]') AS run,
			nullif(json_extract(value, '$[2]'), '') AS since, value AS texts FROM json_each(?1)
	)
	SELECT n, ` + eventColumns + ` FROM asked CROSS JOIN main.events
		WHERE aggregate_type = kind COLLATE BINARY AND aggregate_id = run COLLATE BINARY AND timestamp >= since
	UNION ALL SELECT n, ` + eventColumns + ` FROM asked CROSS JOIN main.events
		WHERE aggregate_type = kind COLLATE BINARY AND aggregate_id = run COLLATE BINARY AND since IS NOT NULL
			AND ` + isForeignTime + `
	UNION ALL SELECT n, ` + eventColumns + ` FROM (
		SELECT n, kind, run, one.value AS name FROM asked CROSS JOIN json_each(texts) AS one WHERE one.key >= 3
		) AS named CROSS JOIN main.events
		WHERE id COLLATE BINARY = name
			AND +aggregate_type = kind COLLATE BINARY AND +aggregate_id = run COLLATE BINARY`

// askedOf returns the selections as selectMany reads them: the texts of each are its aggregate, Since, empty for none,
// and its IDs.
func askedOf(exchanges []*watchdog.Exchange) [][]string {
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
	}, selectMany, jsonArray(askedOf(exchanges)))
	for i, x := range exchanges {
		all[i] = selectedOf(all[i], x.Selection)
	}
	return err
}
