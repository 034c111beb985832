package sqlite

import (
	"context"
	"database/sql"
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
