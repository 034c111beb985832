package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// insertOutbox puts those of the events with these IDs into the outbox that are ends, in the order of the IDs.
const insertOutbox = `
	INSERT INTO main.watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
	SELECT id, aggregate_type, aggregate_id, event_type, ` + databaseTime + `
	FROM (SELECT value AS name FROM json_each(?1)) CROSS JOIN main.events WHERE id COLLATE BINARY = name
		AND +aggregate_type = '` + watchdog.AggregateType + `'
		AND +event_type IN ('` + watchdog.EventCancel + `', '` + watchdog.EventComplete + `')`

// insertTold inserts events as insertEvents does, and puts the ends among those that it inserts into the outbox.
func (t *transaction) insertTold(rows []row) (inserted int64, err error) {
	prepared, err := t.prepare(insertRows + ` RETURNING id`) //nolint:sqlclosecheck // kept as long as the writer
	if err != nil {
		return 0, err
	}
	ids, err := textsOf(prepared.QueryContext(context.Background(), jsonArray(rows)))
	if err != nil {
		return 0, err
	}
	return int64(len(ids)), t.run(insertOutbox, jsonArray(ids))
}

// isEnd reports whether the event is the end of a run's window.
func (r row) isEnd() bool {
	return r[1] == watchdog.AggregateType && (r[3] == watchdog.EventCancel || r[3] == watchdog.EventComplete)
}

// outboxDelivery are the columns of version 5. Each has a default, so that versions that do not know it go on writing
// rows: these are due, and were never claimed.
var outboxDelivery = leaseTable{"watchdog_outbox", [][2]string{
	{"due_at", "TEXT NOT NULL DEFAULT ''"}, // or until when it is claimed
	{"tries", "INTEGER NOT NULL DEFAULT 0"},
	// Version 5 was without them for a while.
	{"paused_at", "TEXT NOT NULL DEFAULT ''"}, // when due_at was set
	{"waited", "INTEGER NOT NULL DEFAULT 0"},  // its delays in all, in microseconds
}}

// outboxIndexes find what is due, in the order in which it was put, and the rows of an event. Rejected: a unique index
// of the events. Rows of earlier versions may name one twice, for example after its event was deleted and stored again,
// and such a version could then not store an end at all.
var outboxIndexes = []string{
	`watchdog_outbox_due ON watchdog_outbox (due_at)`,
	`watchdog_outbox_event ON watchdog_outbox (event_id)`,
}

// createDelivery is version 5. It adds what is missing.
func createDelivery(t *transaction) error {
	if err := t.complete(outboxDelivery); err != nil {
		return fmt.Errorf("add columns to watchdog_outbox: %w", err)
	}
	for _, index := range outboxIndexes {
		if err := t.exec(`CREATE INDEX IF NOT EXISTS main.` + index); err != nil {
			return fmt.Errorf("index watchdog_outbox: %w", err)
		}
	}
	return nil
}

// lacksDelivery reports whether a column of version 5 is missing.
func (t *transaction) lacksDelivery() (bool, error) {
	exist, err := t.columnNames(outboxDelivery.name)
	return slices.ContainsFunc(outboxDelivery.columns, func(column [2]string) bool {
		return !slices.Contains(exist, column[0])
	}), err
}
