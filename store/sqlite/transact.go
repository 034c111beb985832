package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// Transact implements [watchdog.TransactionalStore]. Like Append it shares a transaction with other writes and waits
// for its commit, and the error says whether something may still be stored when ctx is done. Decide is called in
// another goroutine, with the write lock of the database held. It is not called any more when Transact has returned. If
// Decide panics, nothing is stored and Transact panics.
func (s *Store) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	d := &decider{exchanges: exchanges}
	err := s.change(ctx, "transact", len(exchanges), d.write)
	if panicked := d.finish(); panicked != nil {
		panic(panicked)
	}
	if err != nil {
		return err
	}
	for i, kept := range d.kept {
		exchanges[i].Kept = kept
	}
	return nil
}

// A decider is one call of Transact. The committer writes with it, and may do so again in another transaction.
type decider struct {
	exchanges []*watchdog.Exchange

	mu       sync.Mutex // held while Decide is called
	finished bool       // Transact returns, or Decide failed: it must not be called again
	panicked any        // the value of a panic
	kept     [][]watchdog.Event
}

// write carries out the exchanges on a goroutine of its own: Decide may panic or call runtime.Goexit, and the committer
// must go on.
func (d *decider) write(t *transaction) error {
	err := errNotDecided
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { d.notePanic(recover()) }()
		err = d.carryOut(t)
	}()
	<-done
	return err
}

// notePanic keeps the value of a panic, nil if there was none, for the caller of Transact.
func (d *decider) notePanic(panicked any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.panicked = panicked
}

// carryOut reads what is stored under IDs that others had taken at the end, with one query: nothing in the transaction
// changes an event.
func (d *decider) carryOut(t *transaction) error {
	all := decided{counts: make([]int, 0, len(d.exchanges))}
	for _, part := range storerows.WithoutRepeats(d.exchanges, aggregateOf) {
		selected, err := t.selectedAll(part)
		if err != nil {
			return err
		}
		var events []watchdog.Event
		for i, x := range part {
			some, err := d.decide(x, selected[i])
			if err != nil {
				return err
			}
			events, all.counts = append(events, some...), append(all.counts, len(some))
		}
		if err := all.insert(t, events); err != nil {
			return err
		}
	}
	kept, err := all.kept(t)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = kept
	return nil
}

// An aggregate is what an exchange is about. Of two exchanges of one the second sees what the first appended.
type aggregate struct{ kind, id string }

func aggregateOf(x *watchdog.Exchange) aggregate { return aggregate{x.AggregateType, x.AggregateID} }

// errNotDecided is the error of a request whose Decide is not called, or did not return.
var errNotDecided = errors.New("nothing was decided")

// decide calls Decide, unless Transact has returned.
func (d *decider) decide(x *watchdog.Exchange, selected []watchdog.Event) ([]watchdog.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.finished {
		return nil, errNotDecided
	}
	d.finished = true // for good, if Decide does not return
	decided := x.Decide(selected)
	d.finished = false
	return decided, nil
}

// finish waits for a Decide that is being called, and prevents another call. It returns the value of a panic.
func (d *decider) finish() (panicked any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished = true
	return d.panicked
}

// decided are the events that exchanges decided on, in their order.
type decided struct {
	events   []watchdog.Event
	rows     []row // of the events
	counts   []int // how many are of each exchange
	inserted int64 // how many had an ID that was not taken
}

// insert inserts the events that were decided on next.
func (d *decided) insert(t *transaction, events []watchdog.Event) error {
	rows, err := encode(events)
	if err != nil {
		return err
	}
	inserted, err := t.insertEvents(rows)
	d.events, d.rows, d.inserted = append(d.events, events...), append(d.rows, rows...), d.inserted+inserted
	return err
}

// kept returns for each exchange what is stored under the IDs of its events.
func (d *decided) kept(t *transaction) ([][]watchdog.Event, error) {
	stored, err := d.stored(t)
	if err != nil {
		return nil, err
	}
	kept := make([][]watchdog.Event, len(d.counts))
	for i, n := range d.counts {
		kept[i], stored = stored[:n:n], stored[n:]
	}
	return kept, nil
}

// stored returns what is stored under the IDs: the events themselves, unless an ID was taken.
func (d *decided) stored(t *transaction) ([]watchdog.Event, error) {
	if d.inserted < int64(len(d.events)) {
		return t.storedAs(d.events)
	}
	all := make([]watchdog.Event, len(d.events))
	for i, e := range d.events {
		e.Timestamp, e.Payload = record.Truncate(e.Timestamp), stripVersion(d.rows[i][4])
		all[i] = e
	}
	return all, nil
}

const selectStored = `
	SELECT aggregate_type, aggregate_id, ` + eventColumns + ` FROM main.events
	WHERE id COLLATE BINARY IN (SELECT value FROM json_each(?1))`

// storedAs returns the events of all aggregates that have the IDs of these.
func (t *transaction) storedAs(events []watchdog.Event) ([]watchdog.Event, error) {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	stored, err := t.byID(ids)
	if err != nil {
		return nil, err
	}
	all := make([]watchdog.Event, len(ids))
	for i, id := range ids {
		e, exists := stored[id]
		if !exists {
			return nil, fmt.Errorf("event %s was not stored: a trigger of the table may have dropped it", id)
		}
		e.Payload = bytes.Clone(e.Payload) // an ID may be there twice
		all[i] = e
	}
	return all, nil
}

// byID returns the events that have these IDs.
func (t *transaction) byID(ids []string) (map[string]watchdog.Event, error) {
	stored := make(map[string]watchdog.Event, len(ids))
	err := eachRow(t, func(rows *sql.Rows) error {
		var r eventRow
		var kind, id string
		if err := r.scan(rows, &kind, &id); err != nil {
			return err
		}
		e, err := r.event(kind, id)
		stored[e.ID] = e
		return err
	}, selectStored, jsonArray(ids))
	return stored, err
}
