package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

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

// closeStatements closes what the store has prepared for reads.
func (s *Store) closeStatements() {
	s.selection.close()
	s.stalled.close()
}

// A querier runs queries: a writer, in its transaction, or a reading.
type querier interface {
	query(statement string, arguments ...any) (*sql.Rows, error)
	// values reads the first row. The error is [sql.ErrNoRows] if there is none.
	values(statement string, arguments []any, into ...any) error
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

func (r reading) values(statement string, arguments []any, into ...any) error {
	return r.store.db.QueryRowContext(r.ctx, statement, arguments...).Scan(into...)
}

// eachRow calls row for every row of a query.
func eachRow(on querier, row func(*sql.Rows) error, statement string, arguments ...any) error {
	rows, err := on.query(statement, arguments...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// rowsOf returns the rows of a query, as scan reads them. It does not call eachRow, to allocate less.
func rowsOf[T any](
	on querier, scan func(*sql.Rows) (T, error), statement string, arguments ...any,
) (all []T, err error) {
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

// readRows is rowsOf for a call that reads, and what says what.
func readRows[T any](
	ctx context.Context, s *Store, what string, scan func(*sql.Rows) (T, error), statement string, arguments ...any,
) (all []T, err error) {
	return readAs(ctx, s, what, func(r reading) ([]T, error) { return rowsOf(r, scan, statement, arguments...) })
}

// scanOne reads the only column of a row.
func scanOne[T any](rows *sql.Rows) (value T, err error) {
	err = rows.Scan(&value)
	return value, err
}

// lookUp reads the first row of a query, and reports whether there is one.
func lookUp(on querier, statement string, arguments []any, into ...any) (found bool, err error) {
	err = on.values(statement, arguments, into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
