package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A querier runs queries: a writer, in its transaction, or a reading.
type querier interface {
	query(statement string, arguments ...any) (*sql.Rows, error)
}

// A reading is a call that reads. Its statement is kept in lazy, unless that is nil.
type reading struct {
	ctx   context.Context
	store *Store
	lazy  *lazyStatement
}

func (r reading) query(statement string, arguments ...any) (*sql.Rows, error) {
	if r.lazy == nil {
		return r.store.db.QueryContext(r.ctx, statement, arguments...)
	}
	prepared, err := r.lazy.prepare(r.ctx, r.store.db, statement) //nolint:sqlclosecheck // kept with the store
	if err != nil {
		return nil, err
	}
	return prepared.QueryContext(r.ctx, arguments...)
}

// A lazyStatement is prepared once, when it is used first: preparing it takes longer than running it.
type lazyStatement struct {
	mu   sync.Mutex
	stmt *sql.Stmt
}

func (p *lazyStatement) prepare(ctx context.Context, db *sql.DB, text string) (_ *sql.Stmt, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stmt == nil {
		p.stmt, err = db.PrepareContext(ctx, text)
	}
	return p.stmt, err
}

func (p *lazyStatement) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stmt != nil {
		_ = p.stmt.Close() // the database is closed next, or is the host's
		p.stmt = nil
	}
}

type scanner[T any] = func(*sql.Rows) (T, error)

func rowsOf[T any](on querier, scan scanner[T], statement string, arguments ...any) (all []T, err error) {
	rows, err := on.query(statement, arguments...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

func scanOne[T any](rows *sql.Rows) (value T, err error) {
	err = rows.Scan(&value)
	return value, err
}

func eachRow(on querier, row func(*sql.Rows) error, statement string, arguments ...any) error {
	_, err := rowsOf(on, func(rows *sql.Rows) (struct{}, error) { return struct{}{}, row(rows) }, statement, arguments...)
	return err
}

// lookUp reads the row of a query that has one at most, and reports whether it has.
func lookUp(on querier, statement string, arguments []any, into ...any) (found bool, err error) {
	rows, err := rowsOf(on, func(rows *sql.Rows) (struct{}, error) { return struct{}{}, rows.Scan(into...) },
		statement, arguments...)
	return len(rows) > 0, err
}

// extraSynchronous is the setting EXTRA: a commit is on disk when it returns, in every journal mode. In DELETE mode
// FULL is not enough: EXTRA also syncs the folder, or a power cut can bring the journal back and undo the commit.
const extraSynchronous = 3

// A transaction holds a connection and, after start, the write lock of the database. The caller must call end, which
// rolls back what was not committed. After an error of do, look, rowsIn and what is made of them, these do nothing, and
// what they return says nothing: the transaction fails with that error.
type transaction struct {
	*writer
	store  *Store
	raised bool // the host's synchronous setting, which was before
	before int
	open   bool
	err    error
}

func (t *transaction) fail(err error) { t.err = cmp.Or(t.err, err) }

func (t *transaction) do(statement string, arguments ...any) (rows int64) {
	if t.err == nil {
		rows, t.err = t.change(statement, arguments...)
	}
	return rows
}

func (t *transaction) look(statement string, arguments []any, into ...any) (found bool) {
	if t.err == nil {
		found, t.err = lookUp(t, statement, arguments, into...)
	}
	return found
}

func rowsIn[T any](t *transaction, scan scanner[T], statement string, arguments ...any) (all []T) {
	if t.err == nil {
		all, t.err = rowsOf(t, scan, statement, arguments...)
	}
	return all
}

func (t *transaction) now() (now time.Time) {
	var text string
	err := t.queryValue(&text, "SELECT "+databaseTime)
	if err == nil {
		now, err = time.Parse(timeLayout, text)
	}
	t.fail(err)
	return now
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
		t.writer, err = t.store.connect(ctx)
	}
	if err == nil && !t.store.owned && !t.raised {
		err = t.raiseSynchronous()
	}
	if err == nil {
		_, err = t.change("BEGIN IMMEDIATE")
		t.open = err == nil
	}
	return err
}

func (t *transaction) raiseSynchronous() error {
	err := t.queryValue(&t.before, "PRAGMA main.synchronous")
	if err == nil && t.before < extraSynchronous {
		err = t.setSynchronous(extraSynchronous)
		t.raised = err == nil
	}
	if err != nil {
		return fmt.Errorf("raise the synchronous setting: %w", err)
	}
	return nil
}

func (t *transaction) setSynchronous(level int) error {
	return t.Run(fmt.Sprint("PRAGMA main.synchronous = ", level))
}

// commit makes the transaction durable. With a rollback journal it also waits for readers.
func (t *transaction) commit() error {
	err := t.store.retryWhileLocked(context.Background(), func() error {
		_, err := t.change("COMMIT")
		return err
	})
	t.open = err != nil
	return err
}

// end rolls back what is not committed, and gives the connection back as it was. It returns no error, because a commit
// stays valid: it discards a connection that it cannot restore.
func (t *transaction) end() {
	if t.writer == nil {
		return
	}
	var err error
	if t.open {
		err = t.Run("ROLLBACK")
	}
	if err != nil && strings.Contains(err.Error(), "no transaction is active") {
		err = nil // SQLite rolls back by itself when the disk is full
	}
	if t.raised {
		err = errors.Join(err, t.setSynchronous(t.before))
	}
	switch {
	case err != nil:
		t.discard()
	case t.store.owned:
		t.store.idleWriter = t.writer
	default:
		t.close()
	}
}

// A writer is a connection with prepared statements. A store from Open keeps one, because preparing costs half as much
// as the rest of a short transaction. With a host's pool, a writer lives for one transaction.
// Its calls take no caller's context: after an interrupted statement nobody knows what was stored.
type writer struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

// connect returns the idle writer, or one with a connection from the pool. A host's pool may have a single connection.
func (s *Store) connect(ctx context.Context) (*writer, error) {
	if w := s.idleWriter; w != nil {
		s.idleWriter = nil
		return w, nil
	}
	limited, cancel := context.WithTimeout(ctx, s.lockWait)
	defer cancel()
	conn, err := s.db.Conn(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no connection of the pool came free in %v: end the transactions that hold them, or allow more: %w",
			s.lockWait, err)
	}
	if err != nil {
		return nil, err
	}
	return &writer{conn: conn, prepared: map[string]*sql.Stmt{}}, nil
}

// returnWriter gives the connection of the idle writer back to the pool, while nothing is committed.
func (s *Store) returnWriter() {
	if s.idleWriter != nil {
		s.idleWriter.close()
		s.idleWriter = nil
	}
}

func (w *writer) prepare(statement string) (prepared *sql.Stmt, err error) {
	if prepared = w.prepared[statement]; prepared != nil {
		return prepared, nil
	}
	if prepared, err = w.conn.PrepareContext(context.Background(), statement); err == nil {
		w.prepared[statement] = prepared
	}
	return prepared, err
}

// change executes a prepared statement and returns how many rows it changed.
func (w *writer) change(statement string, arguments ...any) (rows int64, err error) {
	prepared, err := w.prepare(statement) //nolint:sqlclosecheck // kept as long as the writer
	if err != nil {
		return 0, err
	}
	result, err := prepared.ExecContext(context.Background(), arguments...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (w *writer) query(statement string, arguments ...any) (*sql.Rows, error) {
	prepared, err := w.prepare(statement) //nolint:sqlclosecheck // kept as long as the writer
	if err != nil {
		return nil, err
	}
	return prepared.QueryContext(context.Background(), arguments...)
}

// Run executes a statement without preparing it.
func (w *writer) Run(statement string, arguments ...any) error {
	_, err := w.conn.ExecContext(context.Background(), statement, arguments...)
	return err
}

// queryValue does not prepare the query: that costs more where a writer lives for one transaction.
func (w *writer) queryValue(into any, query string) error {
	return w.conn.QueryRowContext(context.Background(), query).Scan(into)
}

func (w *writer) close() {
	var err error
	for _, prepared := range w.prepared {
		err = errors.Join(err, prepared.Close())
	}
	if err != nil {
		w.discard()
		return
	}
	_ = w.conn.Close()
}

// discard closes the connection instead of giving it back, because it is in an unknown state.
func (w *writer) discard() {
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.conn.Close()
}
