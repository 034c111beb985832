package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// Append implements [event.Store]. It returns when the events are durable, or when ctx is done. In that case
// the events are not stored, unless they were being written at that moment; the error says which. An append costs one
// sync of the disk, which it shares with the appends of other goroutines.
func (s *Store) Append(ctx context.Context, events ...event.Event) error {
	rows, err := encode(events)
	if err != nil {
		return err
	}
	return s.change(ctx, "append events", len(rows), func(t *transaction) { t.insertEvents(rows) })
}

// Read implements [event.Store]. If another program wrote a row whose timestamp or payload cannot be read, Read
// returns an error that names the row.
func (s *Store) Read(ctx context.Context, aggregateType, aggregateID string) ([]event.Event, error) {
	events, err := readRows(ctx, s, "events", scanEvent(aggregateType, aggregateID), selectEvents,
		aggregateType, aggregateID)
	slices.SortStableFunc(events, event.Event.Compare) // timestamps of other writers may not sort as text
	return events, err
}

const selectEvents = `SELECT ` + eventColumns + ` FROM main.events WHERE ` + ofAggregate

// A row is an event in the order of the table's columns: id, aggregate_type, aggregate_id, event_type, payload,
// timestamp, consensus_id, which is empty for NULL.
type row [7]string

// encode copies the events into rows, so that the caller may change the events while the rows wait for their commit.
func encode(events []event.Event) ([]row, error) {
	if err := storeflow.Validate(events); err != nil {
		return nil, err
	}
	rows := make([]row, len(events))
	for i, e := range events {
		rows[i] = row{e.ID, e.AggregateType, e.AggregateID, e.Type, addVersion(e.Payload), formatTime(e.Timestamp),
			e.ConsensusID}
	}
	return rows, nil
}

// An eventRow is a row of eventColumns, in which another program may have written anything.
type eventRow struct{ id, kind, payload, timestamp, consensus sql.NullString }

func (r *eventRow) scan(rows *sql.Rows, before ...any) error {
	if err := rows.Scan(append(before, &r.id, &r.kind, &r.payload, &r.timestamp, &r.consensus)...); err != nil {
		return fmt.Errorf("read a row: %w", err)
	}
	return nil
}

// event returns the row as an event of the aggregate. Its errors never contain a payload.
func (r *eventRow) event(aggregateType, aggregateID string) (e event.Event, err error) {
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

func scanEvent(aggregateType, aggregateID string) func(*sql.Rows) (event.Event, error) {
	return func(rows *sql.Rows) (e event.Event, err error) {
		var r eventRow
		if err = r.scan(rows); err == nil {
			e, err = r.event(aggregateType, aggregateID)
		}
		return e, err
	}
}

// insertRows inserts the events of a JSON array of rows in their order, unless their IDs are taken. Rejected: VALUES
// with a parameter for each column, which costs the driver two objects each, and a statement for each number of rows.
const insertRows = `
	INSERT INTO main.events (id, aggregate_type, aggregate_id, event_type, payload, timestamp, consensus_id)
	SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
		json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
		nullif(json_extract(value, '$[6]'), '') FROM json_each(?1) WHERE true ON CONFLICT (id) DO NOTHING`

// A statement inserts at most so many rows, and no more once their payloads have so many bytes.
const (
	mostRows  = 1024
	mostBytes = 1 << 20
)

// insertEvents inserts the events whose IDs are not taken, with as few statements as it can, and returns how many it
// inserted.
func (t *transaction) insertEvents(rows []row) (inserted int64) {
	for len(rows) > 0 {
		n := 0
		for bytes := 0; n < min(len(rows), mostRows) && bytes < mostBytes; n++ {
			bytes += len(rows[n][4])
		}
		inserted += t.do(insertRows, jsonArray(rows[:n]))
		rows = rows[n:]
	}
	return inserted
}

// Every payload in the table has an event_version. If the event has none, addVersion adds it in exactly this form as
// the last key, and stripVersion removes exactly this form, so that a reader gets what was appended.
const (
	versionKey       = "event_version"
	addedVersion     = `,"event_version":1}`
	emptyWithVersion = `{"event_version":1}`
)

// addVersion returns the payload as text with an event_version. If the payload has one of its own in the same form,
// addVersion adds a space, which means nothing in JSON, so that stripVersion leaves the key alone.
func addVersion(payload []byte) string {
	body := bytes.Trim(payload, " \t\r\n")
	switch {
	case len(bytes.Trim(body[1:len(body)-1], " \t\r\n")) == 0:
		return emptyWithVersion
	case !hasVersion(body):
		return string(body[:len(body)-1]) + addedVersion
	case hasAddedVersion(string(body)):
		return string(body[:len(body)-1]) + " }"
	default:
		return string(body)
	}
}

// stripVersion returns the payload of a row as it was appended. Text of other writers is returned unchanged, unless it
// ends in exactly the added form. NULL is an empty object.
func stripVersion(text string) json.RawMessage {
	switch {
	case text == "" || text == emptyWithVersion:
		return json.RawMessage("{}")
	case hasAddedVersion(text):
		return json.RawMessage(strings.TrimSuffix(text, addedVersion) + "}")
	default:
		return json.RawMessage(text)
	}
}

func hasAddedVersion(text string) bool {
	return text == emptyWithVersion || strings.HasSuffix(text, addedVersion)
}

// hasVersion looks for the key at the top level, also when it is spelled with escapes. It rarely has to decode.
func hasVersion(object []byte) bool {
	if !bytes.Contains(object, []byte(versionKey)) && !bytes.ContainsRune(object, '\\') {
		return false
	}
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(object, &keys) // what is no JSON has no keys
	_, exists := keys[versionKey]
	return exists
}
