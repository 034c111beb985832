package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed62658d38/watchdog"
)

// Transact implements [watchdog.TransactionalStore]. Like Append it shares a transaction with other writes and waits for
// its commit, and the error says whether something may still be stored when ctx is done. Decide is called in another
// goroutine, with the write lock of the database held. It is not called any more when Transact has returned. If Decide
// panics, nothing is stored and Transact panics.
func (s *Store) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	err := ctx.Err()
	if err != nil {
		return fmt.Errorf("transact: %w", err)
	}
	d := &decider{exchanges: exchanges}
	err = s.commit(ctx, len(exchanges), d.write)
	if panicked := d.finish(); panicked != nil {
		panic(panicked)
	}
	if err != nil {
		return fmt.Errorf("transact: %w", err)
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

// write carries out the exchanges.
func (d *decider) write(t *transaction) error {
	kept := make([][]watchdog.Event, len(d.exchanges))
	for i, x := range d.exchanges {
		selected, err := t.selected(x.Selection)
		if err != nil {
			return err
		}
		decided, err := d.decide(x, selected)
		if err != nil {
			return err
		}
		if kept[i], err = t.keep(decided); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = kept
	return nil
}

// errNotDecided is the error of a request whose Decide is not called, or did not return.
var errNotDecided = errors.New("nothing was decided")

// decide calls Decide, unless Transact has returned. It needs a goroutine: Decide may panic or call runtime.Goexit, and
// the committer must go on.
func (d *decider) decide(x *watchdog.Exchange, selected []watchdog.Event) ([]watchdog.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.finished {
		return nil, errNotDecided
	}
	d.finished = true
	var decided []watchdog.Event
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { d.panicked = recover() }()
		decided = x.Decide(selected)
		d.finished = false
	}()
	<-done
	if d.finished {
		return nil, errNotDecided
	}
	return decided, nil
}

// finish waits for a Decide that is being called, and prevents another call. It returns the value of a panic.
func (d *decider) finish() (panicked any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished = true
	return d.panicked
}

func (t *transaction) selected(s watchdog.Selection) ([]watchdog.Event, error) {
	prepared, err := t.prepare(selectSelection) //nolint:sqlclosecheck // kept as long as the writer
	if err != nil {
		return nil, err
	}
	rows, err := prepared.QueryContext(context.Background(), selectionArguments(s)...)
	if err != nil {
		return nil, err
	}
	return selectFrom(rows, s)
}

// keep inserts the events, and returns what is stored under their IDs.
func (t *transaction) keep(events []watchdog.Event) ([]watchdog.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	rows, err := encode(events)
	if err != nil {
		return nil, err
	}
	if err := t.insertEvents(rows); err != nil {
		return nil, err
	}
	stored, err := t.storedAs(events)
	if err != nil {
		return nil, err
	}
	kept := make([]watchdog.Event, len(events))
	for i, e := range events {
		var exists bool
		if kept[i], exists = stored[e.ID]; !exists {
			return nil, fmt.Errorf("event %s was not stored: a trigger of the table may have dropped it", e.ID)
		}
		kept[i].Payload = bytes.Clone(kept[i].Payload) // an ID may be there twice
	}
	return kept, nil
}

const selectStored = `
	SELECT aggregate_type, aggregate_id, ` + eventColumns + ` FROM main.events
	WHERE id COLLATE BINARY IN (SELECT value FROM json_each(?1))`

// storedAs returns the events of all aggregates that have the IDs of these.
func (t *transaction) storedAs(events []watchdog.Event) (map[string]watchdog.Event, error) {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.ID
	}
	prepared, err := t.prepare(selectStored) //nolint:sqlclosecheck // kept as long as the writer
	if err != nil {
		return nil, err
	}
	rows, err := prepared.QueryContext(context.Background(), jsonArray(names))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	stored := make(map[string]watchdog.Event, len(events))
	for rows.Next() {
		var r eventRow
		var kind, id string
		if err := r.scan(rows, &kind, &id); err != nil {
			return nil, err
		}
		e, err := r.event(kind, id)
		if err != nil {
			return nil, err
		}
		stored[e.ID] = e
	}
	return stored, rows.Err()
}
