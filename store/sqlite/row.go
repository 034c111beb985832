package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// A row is an event in the order of the table's columns: id, aggregate_type, aggregate_id, event_type, payload,
// timestamp, consensus_id.
type row [7]any

// encode copies the events into rows, so that the caller may change the events while the rows wait for their commit.
func encode(events []watchdog.Event) ([]row, error) {
	if err := storerows.Validate(events); err != nil {
		return nil, err
	}
	rows := make([]row, len(events))
	for i, e := range events {
		rows[i] = row{
			e.ID, e.AggregateType, e.AggregateID, e.Type,
			addVersion(e.Payload), formatTime(e.Timestamp), storerows.Nullable(e.ConsensusID),
		}
	}
	return rows, nil
}

// scanEvent reads the columns of selectEvents. Its errors never contain a payload.
func scanEvent(rows *sql.Rows) (e watchdog.Event, err error) {
	var kind, payload, timestamp, consensus sql.NullString
	if err := rows.Scan(&e.ID, &kind, &payload, &timestamp, &consensus); err != nil {
		return e, fmt.Errorf("read a row: %w", err)
	}
	e.Type, e.ConsensusID = kind.String, consensus.String
	if e.Timestamp, err = parseTime(timestamp.String); err != nil {
		return e, fmt.Errorf("event %s: column timestamp: %w", e.ID, err)
	}
	if e.Payload = stripVersion(payload.String); !json.Valid(e.Payload) {
		return e, fmt.Errorf("event %s: column payload does not hold JSON", e.ID)
	}
	return e, nil
}
