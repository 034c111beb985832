package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// maxRows limits a shared transaction, so that nobody waits long for others' rows. A larger batch gets its own.
const maxRows = 1024

type request struct {
	write func(*transaction) // called again, in another transaction, if the first one fails
	size  int                // in rows
	one   bool               // it is one statement, which needs no transaction around it
	taken bool               // into a transaction; guarded by the queue's lock
	done  chan error         // gets the result; buffered, because the caller may have stopped waiting
}

func newRequest(size int, write func(*transaction)) *request {
	return &request{write: write, size: size, done: make(chan error, 1)}
}

// change has a write committed, and waits for the result until ctx is done. After an error the write may still be under
// way: the caller must neither read nor write what it writes to, such as a named result, any more.
func (s *Store) change(ctx context.Context, doing string, size int, write func(*transaction)) error {
	return s.commit(ctx, doing, newRequest(size, write))
}

func changed[T any](ctx context.Context, s *Store, doing string, size int, write func(*transaction) T) (T, error) {
	var written, none T
	if err := s.change(ctx, doing, size, func(t *transaction) { written = write(t) }); err != nil {
		return none, err
	}
	return written, nil
}

func (s *Store) commit(ctx context.Context, doing string, r *request) error {
	err := ctx.Err()
	if err == nil {
		err = s.wrapError("write to", s.await(ctx, r))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

func (s *Store) await(ctx context.Context, r *request) error {
	if s.reader != nil {
		return ErrReadOnly
	}
	if err := s.enqueue(r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return s.queue.withdraw(ctx, r)
	}
}

// A queue holds the requests that no transaction has taken yet. One goroutine takes them, the committer. The first
// request starts it, and it ends when it finds no more requests.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	ended   error         // why no call is begun any more: ErrClosed, or the file is gone
	running chan struct{} // closed when the committer has ended; nil if there is none
	refused error         // why the committer last failed to get the write lock; nil when it has it
}

func (s *Store) enqueue(r *request) error {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ended != nil:
		return q.ended
	case r.size == 0:
		r.done <- nil
		return nil
	}
	q.waiting = append(q.waiting, r)
	if q.running == nil {
		q.running = make(chan struct{})
		go s.commitUntilEmpty(q.running)
	}
	return nil
}

// withdraw removes the request of a caller whose context is done, if no transaction has taken it yet.
func (q *queue) withdraw(ctx context.Context, r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case err := <-r.done:
		return err
	default:
	}
	if r.taken {
		return fmt.Errorf("it was being written when the caller stopped waiting, and may still be stored: %w", ctx.Err())
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(other *request) bool { return other == r })
	if q.refused != nil {
		return fmt.Errorf("nothing was written: %w: %w", ctx.Err(), q.refused)
	}
	return fmt.Errorf("nothing was written: %w", ctx.Err())
}

func (q *queue) pending() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.waiting)
}

// take removes the requests of the next transaction from the queue: up to maxRows rows, but at least one request.
func (q *queue) take() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused = nil
	n, rows := 0, 0
	for ; n < len(q.waiting); n++ {
		if rows += q.waiting[n].size; n > 0 && rows > maxRows {
			break
		}
		q.waiting[n].taken = true
	}
	taken := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return taken
}

// takeOne removes the only request if it is one statement, and returns nil otherwise.
func (q *queue) takeOne() *request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) != 1 || !q.waiting[0].one {
		return nil
	}
	r := q.waiting[0]
	r.taken, q.waiting = true, nil
	return r
}

func (q *queue) putBack(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.taken = false
	q.waiting = slices.Insert(q.waiting, 0, r)
}

// fail returns err to the requests that still wait. Those that came later wait on, and get it if they wait in vain.
func (q *queue) fail(requests []*request, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !errors.Is(err, errNobodyWaits) {
		q.refused = err
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(r *request) bool {
		failed := slices.Contains(requests, r)
		if failed {
			r.done <- err
		}
		return failed
	})
}

// stopIfEmpty ends the committer if no request waits. It checks and ends under one lock, so that no request is missed.
func (q *queue) stopIfEmpty(running chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		return false
	}
	q.running, q.refused = nil, nil
	close(running)
	return true
}

// close refuses new requests and waits for the committer. It reports whether it is the first call.
func (q *queue) close() (first bool) {
	q.mu.Lock()
	first, q.ended = !errors.Is(q.ended, ErrClosed), ErrClosed
	running := q.running
	q.mu.Unlock()
	if running != nil {
		<-running
	}
	return first
}

// The committer first waits for the write lock, and takes the waiting requests only when it holds the lock. The longer
// another writer keeps the lock, the more requests share the next sync, and each can be withdrawn until then.
//
// Rejected: a savepoint for each request. It costs two more statements each, and does not help where it
// matters: a full disk, a trigger that rolls back and a deferred constraint take the whole transaction
// with them. A transaction that fails is rolled back and its requests are tried alone.

// errNobodyWaits ends the wait for the lock when every request was withdrawn.
var errNobodyWaits = errors.New("nobody waits for the commit any more")

func (s *Store) commitUntilEmpty(running chan struct{}) {
	for !s.queue.stopIfEmpty(running) {
		s.commitNext()
	}
}

// commitNext writes the waiting requests in one transaction or, if that fails, each in a transaction of its own.
func (s *Store) commitNext() {
	if s.identity.gone != nil {
		s.queue.fail(s.queue.pending(), s.identity.gone)
		return
	}
	if s.owned && s.commitOne() {
		return
	}
	waiting := s.queue.pending()
	t, err := s.begin(context.Background(), func() bool { return len(s.queue.pending()) > 0 })
	if err != nil {
		s.queue.fail(waiting, s.answer(err))
		return
	}
	taken := s.queue.take()
	err = s.write(t, taken)
	alone := err != nil && len(taken) > 1 // so that only the request that cannot be stored fails
	if !alone {
		err = s.answer(err)
	}
	for _, r := range taken {
		if alone {
			if t, err = s.begin(context.Background(), nil); err == nil {
				err = s.write(t, []*request{r})
			}
			err = s.answer(err)
		}
		r.done <- err
	}
}

// commitOne writes the only waiting request if it is one statement, which SQLite commits by itself. It does not if the
// database is locked: then the statement did nothing, and commitNext waits for the lock. It waits for readers there,
// too, because only a transaction keeps new ones out meanwhile. A host's pool may be set to other transactions.
func (s *Store) commitOne() (written bool) {
	r := s.queue.takeOne()
	if r == nil {
		return false
	}
	t := &transaction{store: s}
	defer t.end()
	var err error
	if t.writer, err = s.connect(context.Background()); err == nil {
		r.write(t)
		err = t.err
	}
	if t.writer == nil || isBusy(err) {
		s.queue.putBack(r)
		return false
	}
	r.done <- s.answer(err)
	return true
}

func (s *Store) write(t *transaction, requests []*request) error {
	defer t.end()
	for _, r := range requests {
		if r.write(t); t.err != nil {
			return t.err
		}
	}
	return t.commit()
}
