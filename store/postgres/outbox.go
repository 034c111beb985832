package postgres

import (
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
)

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
