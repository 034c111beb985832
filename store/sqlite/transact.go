package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// Transact implements [event.TransactionalStore]. Like Append it shares a transaction with other writes and waits
// for its commit, and the error says whether something may still be stored when ctx is done. Decide is called in
// another goroutine, with the write lock of the database held. It is not called any more when Transact has returned. If
// Decide panics, nothing is stored and Transact panics.
func (s *Store) Transact(ctx context.Context, exchanges ...*event.Exchange) error {
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
	exchanges []*event.Exchange

	mu       sync.Mutex // held while Decide is called
	finished bool       // Transact returns, or Decide failed: it must not be called again
	panicked any        // nil if Decide did not panic
	kept     [][]event.Event
}

// write carries out the exchanges on a goroutine of its own: Decide may panic or call runtime.Goexit.
func (d *decider) write(t *transaction) {
	err := errNotDecided
	done := make(chan struct{})
	go func() {
		defer close(done)
		var kept [][]event.Event
		defer func() {
			panicked := recover()
			d.mu.Lock()
			defer d.mu.Unlock()
			d.kept, d.panicked = kept, panicked
		}()
		kept, err = storeflow.CarryOut(exchanging{t}, d.exchanges, d.decide)
	}()
	<-done
	t.fail(err)
}

// errNotDecided is the error of a request whose Decide is not called, or did not return.
var errNotDecided = errors.New("nothing was decided")

func (d *decider) decide(x *event.Exchange, selected []event.Event) ([]event.Event, error) {
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

// finish waits for a Decide that is being called, and prevents another call.
func (d *decider) finish() (panicked any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished = true
	return d.panicked
}

type exchanging struct{ *transaction }

// Select implements [storeflow.ExchangeTx], as the next methods do, with one query if it can.
func (t exchanging) Select(exchanges []*event.Exchange) ([][]event.Event, error) {
	all := make([][]event.Event, len(exchanges))
	latest := func(x *event.Exchange) bool { return len(x.LatestOf) > 0 }
	if len(exchanges) > 1 && !slices.ContainsFunc(exchanges, latest) {
		return all, t.selectMany(exchanges, all)
	}
	for i, x := range exchanges {
		var err error
		if all[i], err = selected(t, x.Selection); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (t exchanging) Insert(events []event.Event) (as []event.Event, inserted int, err error) {
	rows, err := encode(events)
	if err != nil {
		return nil, 0, err
	}
	for i, e := range events {
		e.Timestamp, e.Payload = storeflow.Truncate(e.Timestamp), stripVersion(rows[i][4])
		events[i] = e
	}
	return events, int(t.insertEvents(rows)), t.err
}

const selectStored = `SELECT aggregate_type, aggregate_id, ` + eventColumns + ` FROM main.events
	WHERE id COLLATE BINARY IN (SELECT value FROM json_each(?1))`

func (t exchanging) Stored(events []event.Event) ([]event.Event, error) {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	return rowsOf(t, func(rows *sql.Rows) (e event.Event, err error) {
		var r eventRow
		var kind, id string
		if err = r.scan(rows, &kind, &id); err == nil {
			e, err = r.event(kind, id)
		}
		return e, err
	}, selectStored, jsonArray(ids))
}
