package sqlite

import (
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
	ids, err := rowsOf(t, scanText, insertRows+` RETURNING id`, jsonArray(rows))
	if err != nil {
		return 0, err
	}
	return int64(len(ids)), t.run(insertOutbox, jsonArray(ids))
}

// isEnd reports whether the event is the end of a run's window.
func (r row) isEnd() bool {
	return r[1] == watchdog.AggregateType && (r[3] == watchdog.EventCancel || r[3] == watchdog.EventComplete)
}

// outboxIndexes find what is due, in the order in which it was put, and the rows of an event. Rejected: a unique index
// of the events. Rows of earlier versions may name one twice, for example after its event was deleted and stored again,
// and such a version could then not store an end at all.
var outboxIndexes = []string{
	`CREATE INDEX IF NOT EXISTS main.watchdog_outbox_due ON watchdog_outbox (due_at)`,
	`CREATE INDEX IF NOT EXISTS main.watchdog_outbox_event ON watchdog_outbox (event_id)`,
}
