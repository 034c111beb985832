package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// followPause is the time between two looks at the table while it is followed.
const followPause = 500 * time.Millisecond

// A place is the last row of the table at some time. VACUUM can give rows other numbers, so the ID is what counts.
type place struct {
	row int64
	id  string
}

const (
	selectLast = `SELECT _rowid_, id FROM main.events ORDER BY _rowid_ DESC LIMIT 1`

	// selectNew finds the last row of the table, and with it each event of a run (?3; empty for all) after the place ?1
	// and ?2, or NULL if there is none. It is one statement because the last row must be the last of what it has read.
	// If the row of the place was deleted, its number is used, or the last row's if that is lower. The + keeps SQLite
	// from reading the aggregate from its beginning.
	selectNew = `WITH latest (row, id) AS (` + selectLast + `),
		after (row) AS (SELECT coalesce((SELECT _rowid_ FROM main.events WHERE id = ?2 COLLATE BINARY),
			min(?1, (SELECT row FROM latest))))
	SELECT latest.row, latest.id, e.* FROM latest LEFT JOIN (
		SELECT _rowid_ AS row, aggregate_id, ` + eventColumns + ` FROM main.events
		WHERE _rowid_ > (SELECT row FROM after) AND +aggregate_type = '` + watchdog.AggregateType + `' COLLATE BINARY
			AND (?3 = '' OR +aggregate_id = ?3 COLLATE BINARY)) AS e ORDER BY e.row`
)

// Follow implements [watchdog.FeedStore]. It looks at the table twice a second, in the order in which the rows were
// written, and calls told with no connection in use. It returns [ErrClosed] when the store is closed, and then calls
// told no more. It does not find an event that gets the row number of the last one, which a host deleted; and it cannot
// follow a host's table that was created WITHOUT ROWID.
func (s *Store) Follow(ctx context.Context, aggregateID string, ready func(), told func(watchdog.Event)) error {
	at, err := s.lastPlace(ctx)
	if err != nil {
		return err
	}
	ready()
	return storeflow.Follow(ctx, s.followPause, s.queue.isClosed, told,
		func(ctx context.Context) (events []watchdog.Event, pause time.Duration, err error) {
			events, at, err = s.eventsAfter(ctx, at, aggregateID)
			return events, s.followPause, err
		})
}

// lastPlace returns the place from which to follow.
func (s *Store) lastPlace(ctx context.Context) (place, error) {
	return readAs(ctx, s, "new events", func(r reading) (last place, err error) {
		_, err = lookUp(r, selectLast, nil, &last.row, &last.id)
		if err != nil && strings.Contains(err.Error(), "no such column: _rowid_") {
			err = fmt.Errorf("the table events was created WITHOUT ROWID, which is needed to follow it: %w", err)
		}
		return last, err
	})
}

// eventsAfter returns the events that were stored after a place, and the place after them.
func (s *Store) eventsAfter(ctx context.Context, at place, aggregateID string) (
	events []watchdog.Event, last place, err error,
) {
	events, err = readAs(ctx, s, "new events", func(on reading) (events []watchdog.Event, err error) {
		last = place{} // which it stays if the table is empty
		err = eachRow(on, func(rows *sql.Rows) error {
			var r eventRow
			var row sql.NullInt64 // NULL if there is no event
			var runID sql.NullString
			err := r.scan(rows, &last.row, &last.id, &row, &runID)
			if err != nil || !row.Valid {
				return err
			}
			e, err := r.event(watchdog.AggregateType, runID.String)
			events = append(events, e)
			return err
		}, selectNew, at.row, at.id, aggregateID)
		return events, err
	})
	return events, last, err
}

// parentOf is the parent that a payload names, and NULL if there is none. It is the expression of an index, and a query
// must repeat it word for word. It never fails: with an index that does, a host could not write rows without JSON. The
// + of isLayer keeps SQLite from an index on the aggregate type, which finds all runs.
const (
	parentOf = `CASE WHEN NOT json_valid(CAST(payload AS TEXT)) THEN NULL
		WHEN json_type(CAST(payload AS TEXT), '$.parent') = 'text'
		THEN json_extract(CAST(payload AS TEXT), '$.parent') END`
	isLayer = `+aggregate_type = '` + watchdog.AggregateType + `' COLLATE BINARY AND ` + parentOf + ` IS NOT NULL`

	selectLayers = `SELECT DISTINCT aggregate_id COLLATE BINARY FROM main.events
	WHERE ` + isLayer + ` AND ` + parentOf + ` = ?1 ORDER BY 1`
)

// Layers implements [watchdog.FeedStore]. A row of another program whose payload is not JSON has no parent.
func (s *Store) Layers(ctx context.Context, parent string) ([]string, error) {
	return readRows(ctx, s, "layers", scanOne[string], selectLayers, parent)
}
