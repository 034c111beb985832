package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// The rows are inserted in the order of their IDs, so that two batches with the same events cannot deadlock.
const (
	insertRows = `
		INSERT INTO SCHEMA.events (id, aggregate_type, aggregate_id, event_type, payload, "timestamp", consensus_id)
		SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload::pg_catalog.json, e.at, e.consensus_id
		FROM unnest($1::{text}[], $2::{text}[], $3::{text}[], $4::{text}[], $5::{text}[], $6::{time}[], $7::{text}[])
			WITH ORDINALITY AS e (id, aggregate_type, aggregate_id, event_type, payload, at, consensus_id, place)`
	insertOrder = ` ORDER BY e.id COLLATE pg_catalog."C", e.place ON CONFLICT (id) DO NOTHING`

	insertEvents = insertRows + insertOrder

	eventFields = ` id, event_type, payload::{text}, {send}("timestamp"), consensus_id `
	// Read sorts in Go, because the database's collation has another order.
	selectEvents = `SELECT` + eventFields + `FROM SCHEMA.events WHERE aggregate_type {=} $1 AND aggregate_id {=} $2`
)

// encode returns the events as the columns of insertRows, which are NULL without events.
func encode(events []event.Event) (columns [7]any, err error) {
	if err := storeflow.Validate(events); err != nil || len(events) == 0 {
		return columns, err
	}
	var arrays [len(columns)]array
	for _, e := range events {
		for column, text := range [...]string{e.ID, e.AggregateType, e.AggregateID, e.Type} {
			arrays[column] = appendText(arrays[column], text)
		}
		arrays[4] = appendText(arrays[4], e.Payload)
		arrays[5] = arrays[5].time(e.Timestamp)
		arrays[6] = arrays[6].textOrNull(e.ConsensusID)
	}
	for column, all := range arrays {
		columns[column] = all.String()
	}
	return columns, nil
}

func scanEventOf(aggregateType, aggregateID string) pgx.RowToFunc[event.Event] {
	return func(row pgx.CollectableRow) (event.Event, error) {
		e, err := scanEventInto(row)
		e.AggregateType, e.AggregateID = aggregateType, aggregateID
		return e, err
	}
}

// scanEventInto reads the columns before eventFields, and then those. Its errors never contain a payload.
func scanEventInto(row pgx.CollectableRow, before ...any) (e event.Event, err error) {
	var kind, payload, consensus pgtype.Text
	var at instant
	if err := row.Scan(append(before, &e.ID, &kind, &payload, &at, &consensus)...); err != nil {
		return e, fmt.Errorf("read a row: %w", err)
	}
	if !at.Valid || at.Infinite {
		return e, fmt.Errorf("event %s: column timestamp does not hold a time", e.ID)
	}
	if !payload.Valid {
		payload.String = "{}"
	}
	e.Type, e.Payload, e.Timestamp, e.ConsensusID = kind.String, []byte(payload.String), at.Time.UTC(), consensus.String
	return e, nil
}

// Append implements [event.Store], in one round trip, or two if all events are stored already. It returns when
// the events are as durable as the server's synchronous_commit makes them. If the context ends or the connection
// breaks, the events may still be stored; repeating the append is safe.
func (s *Store) Append(ctx context.Context, events ...event.Event) error {
	columns, err := encode(events)
	if err != nil {
		return err
	}
	return s.write(ctx, fmt.Sprintf("append %d events to", len(events)), func(ctx context.Context) error {
		if len(events) == 0 {
			return nil
		}
		inserted, err := s.exec(ctx, insertEvents, columns[:]...)
		if err == nil && inserted == 0 {
			_, err = s.exec(ctx, awaitStandby)
		}
		return err
	})
}

// Read implements [event.Store]. If another program wrote a row with an infinite timestamp or none, Read
// returns an error that names the row.
func (s *Store) Read(ctx context.Context, aggregateType, aggregateID string) ([]event.Event, error) {
	events, err := ask(ctx, s, s.do, "read", scanEventOf(aggregateType, aggregateID), selectEvents,
		aggregateType, aggregateID)
	slices.SortFunc(events, event.Event.Compare)
	return events, err
}

// awaitStandby writes to the server's log, so that the commit waits for a synchronous standby, which then has all that
// was committed before as well. The commit of a write that finds its events stored waits for nothing, and an earlier
// write can have stored them and given up waiting for the standby: if that is promoted, they are lost. It needs no
// right, and whoever decodes the log skips it unless asked for messages.
//
// Rejected: to lock the stored rows, which needs UPDATE on the table.
const awaitStandby = `SELECT pg_catalog.pg_logical_emit_message(true, 'watchdog', '')`
