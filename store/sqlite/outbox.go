package sqlite

import (
	"github.com/seed62658d38/watchdog"
)

const insertEvent = `
	INSERT INTO main.events (id, aggregate_type, aggregate_id, event_type, payload, timestamp, consensus_id)
	VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`

const insertOutbox = `
	INSERT INTO main.watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
	VALUES (?1, ?2, ?3, ?4, ` + databaseTime + `)`

// insertEvent inserts an event, unless its ID is taken. An end event is also put into the outbox, if there is one.
func (t *transaction) insertEvent(r row) (inserted bool, err error) {
	rows, err := t.change(insertEvent, r[:]...)
	if err != nil || rows == 0 {
		return false, err
	}
	if t.store.outbox && r.isEnd() {
		err = t.run(insertOutbox, r[:4]...)
	}
	return true, err
}

func (t *transaction) insertEvents(rows []row) error {
	for _, r := range rows {
		if _, err := t.insertEvent(r); err != nil {
			return err
		}
	}
	return nil
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
