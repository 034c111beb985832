package postgres

import (
	"fmt"

	"github.com/seed62658d38/watchdog"
)

// The outbox has a row for each end of a run, written in the transaction of the end event: a program that reads it
// misses no end, and is told of none that was rolled back.
const createOutbox = `
	CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_outbox (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		event_id pg_catalog.text NOT NULL,
		aggregate_type pg_catalog.text NOT NULL,
		aggregate_id pg_catalog.text NOT NULL,
		event_type pg_catalog.text NOT NULL,
		created_at pg_catalog.timestamptz NOT NULL
	)`

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

// outboxDeliveryIndexes find what is due, in the order in which it was put, and the rows of an event. Alerts that
// several put at once are there once. Rejected: a unique index of all events. Rows of earlier versions may name one
// twice, for example after its event was deleted and stored again, and such a version could then not store an end at
// all.
//
// Each claim writes to the first, and leaves a dead entry where the next begins, so the table is vacuumed when two rows
// in a hundred are dead and not twenty.
var outboxDeliveryIndexes = []string{
	`CREATE INDEX IF NOT EXISTS watchdog_outbox_due ON SCHEMA.watchdog_outbox (due_at, id)`,
	`CREATE INDEX IF NOT EXISTS watchdog_outbox_event ON SCHEMA.watchdog_outbox (event_id)`,
	`CREATE UNIQUE INDEX IF NOT EXISTS watchdog_outbox_alert ON SCHEMA.watchdog_outbox (event_id) WHERE alert`,
	`ALTER TABLE SCHEMA.watchdog_outbox SET (autovacuum_vacuum_scale_factor = 0.02)`,
}

// createDelivery is version 5. As in version 3, migrate fails if a transaction uses the table for long.
func createDelivery(t *transaction) error { return t.add(5, outboxDeliveryIndexes...) }

// insertStatement returns the statement that inserts events.
func (s *Store) insertStatement() string {
	if s.outbox {
		return insertNotifying
	}
	return insertEvents
}
