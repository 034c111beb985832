package postgres

import (
	"fmt"
	"slices"

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

// outboxColumns are those by which the table is known. It gets those of outboxDelivery.
var outboxColumns = []string{"id", "event_id", "aggregate_type", "aggregate_id", "event_type", "created_at"}

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

// outboxDelivery are the columns of version 5. Each has a default, so that versions that do not know it go on writing
// rows: these are due, and were never claimed.
var outboxDelivery = [][2]string{
	{"due_at", "pg_catalog.timestamptz NOT NULL DEFAULT '-infinity'"}, // or until when it is claimed
	{"tries", "bigint NOT NULL DEFAULT 0"},
	{"alert", "boolean NOT NULL DEFAULT false"}, // of no event
	// Version 5 was without them for a while.
	{"paused_at", "pg_catalog.timestamptz NOT NULL DEFAULT '-infinity'"}, // when due_at was set
	{"waited", "bigint NOT NULL DEFAULT 0"},                              // its delays in all, in microseconds
}

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
func createDelivery(t *transaction) error {
	statements := []string{limitLocks}
	for _, column := range outboxDelivery {
		statements = append(statements,
			"ALTER TABLE SCHEMA.watchdog_outbox ADD COLUMN IF NOT EXISTS "+column[0]+" "+column[1])
	}
	for _, statement := range append(statements, outboxDeliveryIndexes...) {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("add to watchdog_outbox: %w", err)
		}
	}
	return nil
}

// checkDelivery reports whether the columns of version 5 exist.
func (t *transaction) checkDelivery() (bool, error) {
	columns, err := t.columns("watchdog_outbox")
	return !slices.ContainsFunc(outboxDelivery, func(wanted [2]string) bool { return !hasColumn(columns, wanted[0]) }), err
}

// insertStatement returns the statement that inserts events.
func (s *Store) insertStatement() string {
	if s.outbox {
		return insertNotifying
	}
	return insertEvents
}
