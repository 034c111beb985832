package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// carryOut reads what is stored under the IDs that others had taken at the end, with one query: nothing in the
// transaction changes an event.
func (d *decider) carryOut(t *transaction) error {
	var decided [][]watchdog.Event
	taken := map[string]bool{}
	for _, part := range storerows.WithoutRepeats(d.exchanges, aggregateOf) {
		selected, err := t.selectedAll(part)
		if err != nil {
			return err
		}
		for i, x := range part {
			events, err := d.decide(x, selected[i])
			if err == nil {
				err = t.insert(events, taken)
			}
			if err != nil {
				return err
			}
			decided = append(decided, events)
		}
	}
	kept, err := t.kept(decided, taken)
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

// insert inserts the events and notes the IDs that were taken.
func (t *transaction) insert(events []watchdog.Event, taken map[string]bool) error {
	rows, err := encode(events)
	if err != nil {
		return err
	}
	for i, r := range rows {
		inserted, err := t.insertEvent(r)
		if err != nil {
			return err
		}
		if !inserted {
			taken[events[i].ID] = true
		}
	}
	return nil
}

// kept returns what is stored under the IDs of the events of each exchange: the events themselves, but for those whose
// ID was taken.
func (t *transaction) kept(decided [][]watchdog.Event, taken map[string]bool) ([][]watchdog.Event, error) {
	stored, err := t.storedAs(slices.Collect(maps.Keys(taken)))
	if err != nil {
		return nil, err
	}
	all := make([][]watchdog.Event, len(decided))
	for i, events := range decided {
		all[i] = make([]watchdog.Event, len(events))
		for j, e := range events {
			kept, exists := stored[e.ID]
			switch {
			case !taken[e.ID]:
				kept = asStored(e)
			case !exists:
				return nil, fmt.Errorf("event %s was not stored: a trigger of the table may have dropped it", e.ID)
			}
			kept.Payload = bytes.Clone(kept.Payload) // an ID may be there twice
			all[i][j] = kept
		}
	}
	return all, nil
}

// asStored is the event as it is read back.
func asStored(e watchdog.Event) watchdog.Event {
	e.Timestamp, e.Payload = record.Truncate(e.Timestamp), stripVersion(addVersion(e.Payload))
	return e
}

const selectStored = `
	SELECT aggregate_type, aggregate_id, ` + eventColumns + ` FROM main.events
	WHERE id COLLATE BINARY IN (SELECT value FROM json_each(?1))`

// storedAs returns the events of all aggregates that have these IDs.
func (t *transaction) storedAs(ids []string) (map[string]watchdog.Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
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
