package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/seed62658d38/watchdog"
)

// A row is an event as the columns of the table take it: id, aggregate_type, aggregate_id, event_type, payload,
// timestamp, consensus_id.
type row [7]any

// encode copies the events into rows, so that the caller may change them while they wait for their commit.
func encode(events []watchdog.Event) ([]row, error) {
	rows := make([]row, len(events))
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("append event %d of %d: %w", i+1, len(events), err)
		}
		rows[i] = row{
			e.ID, e.AggregateType, e.AggregateID, e.Type,
			mark(e.Payload), formatTime(e.Timestamp), nullable(e.ConsensusID),
		}
	}
	return rows, nil
}

// nullable keeps an absent consensus ID as NULL.
func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// scan reads the columns of selectEvents. Nothing of a payload gets into its errors.
func scan(rows *sql.Rows) (e watchdog.Event, err error) {
	var kind, payload, timestamp, consensus sql.NullString
	if err := rows.Scan(&e.ID, &kind, &payload, &timestamp, &consensus); err != nil {
		return e, fmt.Errorf("read a row: %w", err)
	}
	e.Type, e.ConsensusID = kind.String, consensus.String
	if e.Timestamp, err = parseTime(timestamp.String); err != nil {
		return e, fmt.Errorf("event %s: column timestamp: %w", e.ID, err)
	}
	if e.Payload = unmark(payload.String); !json.Valid(e.Payload) {
		return e, fmt.Errorf("event %s: column payload does not hold JSON", e.ID)
	}
	return e, nil
}
