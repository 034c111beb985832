package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// The rows are inserted in the order of their IDs, so that two batches with the same events cannot deadlock.
const (
	insertRows = `
		INSERT INTO SCHEMA.events (id, aggregate_type, aggregate_id, event_type, payload, "timestamp", consensus_id)
		SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload::pg_catalog.json, e.at, e.consensus_id
		FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[], $3::pg_catalog.text[], $4::pg_catalog.text[],
			$5::pg_catalog.text[], $6::pg_catalog.timestamptz[], $7::pg_catalog.text[])
			WITH ORDINALITY AS e (id, aggregate_type, aggregate_id, event_type, payload, at, consensus_id, place)`
	insertOrder = ` ORDER BY e.id COLLATE pg_catalog."C", e.place ON CONFLICT (id) DO NOTHING`

	insertEvents = insertRows + insertOrder

	eventFields = ` id, event_type, payload::pg_catalog.text, pg_catalog.timestamptz_send("timestamp"), consensus_id `

	// Read sorts in Go, because the database's collation has another order.
	selectEvents = `
		SELECT` + eventFields + `FROM SCHEMA.events
		WHERE aggregate_type {=} $1 AND aggregate_id {=} $2`
)

// encode returns the events as the columns of insertRows, which are NULL without events.
func encode(events []watchdog.Event) (columns [7]any, err error) {
	if err := storerows.Validate(events); err != nil || len(events) == 0 {
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

// scanEventOf returns a func that reads the eventFields of an aggregate.
func scanEventOf(aggregateType, aggregateID string) pgx.RowToFunc[watchdog.Event] {
	return func(row pgx.CollectableRow) (watchdog.Event, error) {
		e, err := scanEventInto(row)
		e.AggregateType, e.AggregateID = aggregateType, aggregateID
		return e, err
	}
}

// scanEventInto reads the columns before eventFields, and then those. Its errors never contain a payload.
func scanEventInto(row pgx.CollectableRow, before ...any) (e watchdog.Event, err error) {
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

// Append implements [watchdog.EventStore], in one round trip, or two if all events are stored already. It returns when
// the events are as durable as the server's synchronous_commit makes them. If the context ends or the connection
// breaks, the events may still be stored; repeating the append is safe.
func (s *Store) Append(ctx context.Context, events ...watchdog.Event) error {
	columns, err := encode(events)
	if err != nil {
		return err
	}
	return s.write(ctx, fmt.Sprintf("append %d events to", len(events)), func(ctx context.Context) error {
		if len(events) == 0 {
			return nil
		}
		inserted, err := s.exec(ctx, s.insertStatement(), columns[:]...)
		if err == nil && inserted == 0 {
			_, err = s.exec(ctx, awaitStandby)
		}
		return err
	})
}

// Read implements [watchdog.EventStore]. If another program wrote a row with an infinite timestamp or none, Read
// returns an error that names the row.
func (s *Store) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	events, err := ask(ctx, s, s.do, "read", scanEventOf(aggregateType, aggregateID), selectEvents,
		aggregateType, aggregateID)
	slices.SortFunc(events, watchdog.Event.Compare)
	return events, err
}

// The outbox has a row for each end of a run, written in the transaction of the end event: a program that reads it
// misses no end, and is told of none that was rolled back.
var outboxColumns = []storeflow.Column{
	{Name: "id", Is: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"},
	{Name: "event_id", Is: "{text} NOT NULL"},
	{Name: "aggregate_type", Is: "{text} NOT NULL"},
	{Name: "aggregate_id", Is: "{text} NOT NULL"},
	{Name: "event_type", Is: "{text} NOT NULL"},
	{Name: "created_at", Is: "{time} NOT NULL"},
}

// outboxRows writes the ends among the events of the table or query named.
const (
	outboxRows = `
		INSERT INTO SCHEMA.watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
		SELECT o.id, o.aggregate_type, o.aggregate_id, o.event_type, pg_catalog.statement_timestamp()
		FROM %s AS o WHERE o.aggregate_type {=} '` + watchdog.AggregateType + `'
			AND o.event_type {=} ANY ('{` + watchdog.EventCancel + `,` + watchdog.EventComplete + `}')`
	returnForOutbox = ` RETURNING id, aggregate_type, aggregate_id, event_type`
)

// insertNotifying inserts events as insertEvents does, and returns a row for each. An event that is stored already is
// not in the outbox again.
var insertNotifying = `WITH stored AS (` + insertEvents + returnForOutbox + `), told AS (` +
	fmt.Sprintf(outboxRows, "stored") + `) SELECT id FROM stored`

// outboxIndexes find what is due, in the order in which it was put, and the rows of an event. Alerts that
// several put at once are there once. Rejected: a unique index of all events. Rows of earlier versions may name one
// twice, for example after its event was deleted and stored again, and such a version could then not store an end at
// all.
//
// Each claim writes to the first, and leaves a dead entry where the next begins, so the table is vacuumed when two rows
// in a hundred are dead and not twenty.
var outboxIndexes = []string{
	`CREATE INDEX IF NOT EXISTS watchdog_outbox_due ON SCHEMA.watchdog_outbox (due_at, id)`,
	`CREATE INDEX IF NOT EXISTS watchdog_outbox_event ON SCHEMA.watchdog_outbox (event_id)`,
	`CREATE UNIQUE INDEX IF NOT EXISTS watchdog_outbox_alert ON SCHEMA.watchdog_outbox (event_id) WHERE alert`,
	`ALTER TABLE SCHEMA.watchdog_outbox SET (autovacuum_vacuum_scale_factor = 0.02)`,
}

// insertStatement returns the statement that inserts events.
func (s *Store) insertStatement() string {
	if s.outbox {
		return insertNotifying
	}
	return insertEvents
}

// awaitStandby writes to the server's log, so that the commit waits for a synchronous standby, which then has all that
// was committed before as well. The commit of a write that finds its events stored waits for nothing, and an earlier
// write can have stored them and given up waiting for the standby: if that is promoted, they are lost. It needs no
// right, and whoever decodes the log skips it unless asked for messages.
//
// Rejected: to lock the stored rows, which needs UPDATE on the table.
const awaitStandby = `SELECT pg_catalog.pg_logical_emit_message(true, 'watchdog', '')`
