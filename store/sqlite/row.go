package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// A row is an event in the order of the table's columns: id, aggregate_type, aggregate_id, event_type, payload,
// timestamp, consensus_id, which is empty for NULL.
type row [7]string

// encode copies the events into rows, so that the caller may change the events while the rows wait for their commit.
func encode(events []watchdog.Event) ([]row, error) {
	if err := storerows.Validate(events); err != nil {
		return nil, err
	}
	rows := make([]row, len(events))
	for i, e := range events {
		rows[i] = row{
			e.ID, e.AggregateType, e.AggregateID, e.Type,
			addVersion(e.Payload), formatTime(e.Timestamp), e.ConsensusID,
		}
	}
	return rows, nil
}

// An eventRow is a row of eventColumns, in which another program may have written anything.
type eventRow struct{ id, kind, payload, timestamp, consensus sql.NullString }

// scan reads the columns before eventColumns into the values, and eventColumns.
func (r *eventRow) scan(rows *sql.Rows, before ...any) error {
	if err := rows.Scan(append(before, &r.id, &r.kind, &r.payload, &r.timestamp, &r.consensus)...); err != nil {
		return fmt.Errorf("read a row: %w", err)
	}
	return nil
}

// event returns the row as an event of the aggregate. Its errors never contain a payload.
func (r *eventRow) event(aggregateType, aggregateID string) (e watchdog.Event, err error) {
	e.ID, e.AggregateType, e.AggregateID = r.id.String, aggregateType, aggregateID
	e.Type, e.ConsensusID = r.kind.String, r.consensus.String
	if e.Timestamp, err = parseTime(r.timestamp.String); err != nil {
		return e, fmt.Errorf("event %s: column timestamp: %w", e.ID, err)
	}
	if e.Payload = stripVersion(r.payload.String); !json.Valid(e.Payload) {
		return e, fmt.Errorf("event %s: column payload does not hold JSON", e.ID)
	}
	return e, nil
}

// scanEvent returns a func that reads a row of an aggregate.
func scanEvent(aggregateType, aggregateID string) func(*sql.Rows) (watchdog.Event, error) {
	return func(rows *sql.Rows) (watchdog.Event, error) {
		var r eventRow
		if err := r.scan(rows); err != nil {
			return watchdog.Event{}, err
		}
		return r.event(aggregateType, aggregateID)
	}
}
