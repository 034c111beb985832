package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// A writer is a connection with prepared statements. A store of Open keeps one, because preparing costs half as much as the
// rest of a short transaction; of a host's pool it is taken for one transaction and given back.
// Its calls take no caller's context: a statement that is interrupted leaves nobody knowing what was stored.
type writer struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

// connect takes a connection out of the pool, which a host may have made as small as one.
func (s *Store) connect(ctx context.Context) (*writer, error) {
	if w := s.kept; w != nil {
		s.kept = nil
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

// release is the end of connect.
func (s *Store) release(w *writer) {
	if s.owned {
		s.kept = w
		return
	}
	w.close()
}

// run executes a statement that is run often, and prepares it the first time.
func (w *writer) run(statement string, arguments ...any) (err error) {
	prepared := w.prepared[statement]
	if prepared == nil {
		if prepared, err = w.conn.PrepareContext(context.Background(), statement); err != nil {
			return err
		}
		w.prepared[statement] = prepared
	}
	_, err = prepared.ExecContext(context.Background(), arguments...)
	return err
}

// exec executes a statement that is run once.
func (w *writer) exec(statement string, arguments ...any) error {
	_, err := w.conn.ExecContext(context.Background(), statement, arguments...)
	return err
}

func (w *writer) queryValue(into any, query string) error {
	return w.conn.QueryRowContext(context.Background(), query).Scan(into)
}

// close gives the connection back to the pool.
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

// discard throws the connection away, for nobody should get it as it is now.
func (w *writer) discard() {
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.conn.Close()
}
