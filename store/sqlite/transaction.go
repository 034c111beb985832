package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// extraSynchronous is the setting under which a commit is on disk when it returns, whatever the journal mode of a
// host's database: FULL, and in DELETE mode a sync of the folder too, without which a power cut can undo the last
// commit by bringing its journal back.
const extraSynchronous = 3

// A transaction holds a connection and, once it has begun, the write lock of the database. Every transaction is
// ended, which rolls back what was not committed.
type transaction struct {
	*writer
	store   *Store
	lowered bool // the host's synchronous setting was raised, and is to be put back to before
	before  int
	open    bool
}

// begin takes a connection and the write lock. It waits for both, as long as they are wanted; a nil wanted is always.
func (s *Store) begin(ctx context.Context, wanted func() bool) (*transaction, error) {
	t := &transaction{store: s}
	err := s.patiently(ctx, func() error {
		if wanted != nil && !wanted() {
			return errUnwanted
		}
		return t.start(ctx)
	})
	if err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// start may be called again when it has failed because the database is locked.
func (t *transaction) start(ctx context.Context) (err error) {
	if t.writer == nil {
		if t.writer, err = t.store.connect(ctx); err != nil {
			return err
		}
	}
	if !t.store.owned {
		if err := t.raiseSynchronous(); err != nil {
			return err
		}
	}
	err = t.run("BEGIN IMMEDIATE")
	t.open = err == nil
	return err
}

func (t *transaction) raiseSynchronous() error {
	if t.lowered {
		return nil
	}
	if err := t.queryValue(&t.before, "PRAGMA main.synchronous"); err != nil {
		return fmt.Errorf("read the synchronous setting: %w", err)
	}
	if t.before >= extraSynchronous {
		return nil
	}
	if err := t.exec(fmt.Sprint("PRAGMA main.synchronous = ", extraSynchronous)); err != nil {
		return fmt.Errorf("raise the synchronous setting: %w", err)
	}
	t.lowered = true
	return nil
}

const insertEvent = `
	INSERT INTO main.events (id, aggregate_type, aggregate_id, event_type, payload, timestamp, consensus_id)
	VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`

func (t *transaction) insert(rows []row) error {
	for _, r := range rows {
		if err := t.run(insertEvent, r[:]...); err != nil {
			return err
		}
	}
	return nil
}

// commit makes the transaction durable. With a rollback journal it has to wait for readers, too.
func (t *transaction) commit() error {
	err := t.store.patiently(context.Background(), func() error { return t.run("COMMIT") })
	t.open = err != nil
	return err
}

// end rolls back if need be and gives the connection back as it was. A connection that cannot be
// put right is thrown away, which is why there is no error: what was committed is committed.
func (t *transaction) end() {
	if t.writer == nil {
		return
	}
	if err := errors.Join(t.rollback(), t.lowerSynchronous()); err != nil {
		t.discard()
		return
	}
	t.store.release(t.writer)
}

// rollback undoes what SQLite, which rolls back by itself when the disk is full, has not undone already.
func (t *transaction) rollback() error {
	if !t.open {
		return nil
	}
	err := t.exec("ROLLBACK")
	if err != nil && strings.Contains(err.Error(), "no transaction is active") {
		return nil
	}
	return err
}

func (t *transaction) lowerSynchronous() error {
	if !t.lowered {
		return nil
	}
	return t.exec(fmt.Sprint("PRAGMA main.synchronous = ", t.before))
}
