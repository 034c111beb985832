package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A Store is a [watchdog.TransactionalStore], a [watchdog.FeedStore], a [watchdog.SpendStore], a [session.Store], a
// [session.Listener], a [session.Lister], a [session.BatchCanceller] and a [session.Outbox] in a PostgreSQL database;
// the package comment describes its tables. [Open] and [New] return one. It is safe for concurrent use, and several
// processes may use one database.
type Store struct {
	pool  *pgxpool.Pool
	owned bool // opened by Open, and so closed by Close
	mode  pgx.QueryExecMode
	// poolMode is what the pool uses by default, and always for a batch.
	poolMode pgx.QueryExecMode
	address  string // database and hosts, for errors
	// severalHosts is true if an error has to say which host it is about.
	severalHosts bool
	schema       string // of Config, or the first of the search_path
	outbox       bool   // of Config
	readOnly     bool   // of Config
	settings     string // the statement that begins a batch
	beginQuery   string // of a transaction
	// qualified has what qualify returned: a few dozen statements.
	qualified sync.Map

	leases leaseConn
	spares chan struct{} // has room for those that are open
	// followPause is the shortest pause between two polls of a Follow.
	followPause time.Duration

	mu      sync.Mutex      // held to begin a call, and to close
	closing context.Context // ended by Close; ends the listeners
	close   context.CancelFunc
	calls   sync.WaitGroup
}

// Close waits for the running calls, ends those of [Store.Listen] and [Store.Follow], and then closes the store; later
// calls return [ErrClosed]. It closes the pool of [Open], and not the one given to [New]. It always returns nil.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.isClosing()
	s.close()
	s.mu.Unlock()
	s.calls.Wait()
	if first {
		s.closeLeases()
	}
	if s.owned {
		s.pool.Close()
	}
	return nil
}

// begin counts a call, so that Close waits for it.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosing() {
		return ErrClosed
	}
	s.calls.Add(1)
	return nil
}

var (
	_ watchdog.TransactionalStore = (*Store)(nil)
	_ watchdog.FeedStore          = (*Store)(nil)
	_ watchdog.SpendStore         = (*Store)(nil)
	_ session.Store               = (*Store)(nil)
	_ session.Listener            = (*Store)(nil)
	_ session.Lister              = (*Store)(nil)
	_ session.BatchCanceller      = (*Store)(nil)
	_ session.Outbox              = (*Store)(nil)
)
