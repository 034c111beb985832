package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// extraSynchronous is the setting EXTRA: a commit is on disk when it returns, in every journal mode. In DELETE mode
// FULL is not enough: EXTRA also syncs the folder, without which a power cut can bring the journal back and undo the
// commit.
const extraSynchronous = 3

// A transaction holds a connection and, after start, the write lock of the database. The caller must call end, which
// rolls back what was not committed.
type transaction struct {
	*writer
	store  *Store
	raised bool // the host's synchronous setting, which was before
	before int
	open   bool
}

// begin takes a connection and the write lock. It waits for both while wanted returns true; nil means always.
func (s *Store) begin(ctx context.Context, wanted func() bool) (*transaction, error) {
	t := &transaction{store: s}
	err := s.retryWhileLocked(ctx, func() error {
		if wanted != nil && !wanted() {
			return errNobodyWaits
		}
		return t.start(ctx)
	})
	if err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// start may be called again if it failed because the database is locked.
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
	if t.raised {
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
	t.raised = true
	return nil
}

// commit makes the transaction durable. With a rollback journal it also waits for readers.
func (t *transaction) commit() error {
	err := t.store.retryWhileLocked(context.Background(), func() error { return t.run("COMMIT") })
	t.open = err != nil
	return err
}

// end rolls back what is not committed, and gives the connection back as it was. It returns no error, because a commit
// stays valid: it discards a connection that it cannot restore.
func (t *transaction) end() {
	if t.writer == nil {
		return
	}
	if err := errors.Join(t.rollback(), t.restoreSynchronous()); err != nil {
		t.discard()
		return
	}
	t.store.release(t.writer)
}

// rollback ignores that no transaction is active: SQLite rolls back by itself when the disk is full.
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

func (t *transaction) restoreSynchronous() error {
	if !t.raised {
		return nil
	}
	return t.exec(fmt.Sprint("PRAGMA main.synchronous = ", t.before))
}

// now returns the time of the database's clock.
func (t *transaction) now() (time.Time, error) {
	var text string
	if err := t.queryValue(&text, "SELECT "+databaseTime); err != nil {
		return time.Time{}, err
	}
	return time.Parse(timeLayout, text)
}
