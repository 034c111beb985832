package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Store is a [event.TransactionalStore], a [event.LayerStore], a [session.Store], a [session.Listener], a
// [session.Lister] and a [session.BatchCanceller] in a PostgreSQL database; the package comment describes its tables.
// [Open] and [New] return one. It is safe for concurrent use, and several processes may use one database.
type Store struct {
	pool         *pgxpool.Pool
	owned        bool // opened by Open, and so closed by Close
	mode         pgx.QueryExecMode
	poolMode     pgx.QueryExecMode // what the pool uses by default, and always for a batch
	address      string            // database and hosts, for errors
	severalHosts bool              // an error has to say which host it is about
	schema       string            // of Config, or the first of the search_path
	readOnly     bool              // of Config
	settings     string            // the statement that begins a batch
	beginQuery   string            // of a transaction
	qualified    sync.Map          // what qualify returned: a few dozen statements
	leases       leaseConn
	spares       chan struct{} // has room for those that are open

	mu      sync.Mutex      // held to begin a call, and to close
	closing context.Context // ended by Close; ends the listeners
	close   context.CancelFunc
	calls   sync.WaitGroup
}

// Close waits for the running calls, ends those of [Store.Listen], and then closes the store; later calls return
// [ErrClosed]. It closes the pool of [Open], and not the one given to [New]. It always returns nil.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.isClosing()
	s.close()
	s.mu.Unlock()
	s.calls.Wait()
	if conn := s.leases.conn; first && conn != nil {
		s.leases.conn = nil
		closeConn(context.Background(), conn)
	}
	if s.owned {
		s.pool.Close()
	}
	return nil
}

func (s *Store) write(ctx context.Context, doing string, call func(context.Context) error) error {
	if s.readOnly {
		return s.wrapError(ctx, doing, ErrReadOnly)
	}
	return s.do(ctx, doing, call)
}

// do runs a call that Close waits for, and wraps its error.
func (s *Store) do(ctx context.Context, doing string, call func(context.Context) error) error {
	s.mu.Lock()
	err := ctx.Err()
	if err == nil && s.isClosing() {
		err = ErrClosed
	}
	if err == nil {
		s.calls.Add(1)
		defer s.calls.Done()
	}
	s.mu.Unlock()
	if err == nil {
		err = retryUndone(ctx, call)
	}
	return s.wrapError(ctx, doing, err)
}

// retryUndone repeats a call that the server has rolled back so that another transaction could go on. A database can
// be configured so that this happens at any time.
func retryUndone(ctx context.Context, call func(context.Context) error) error {
	const retries = 10
	err := call(ctx)
	for range retries {
		if code := codeOf(err); code != serializationFailure && code != deadlockDetected {
			return err
		}
		err = call(ctx)
	}
	return err
}
