package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// maxRows bounds a shared transaction, so that nobody waits long for others' rows. A larger batch has one to itself.
const maxRows = 1024

// A request is a write that waits for its commit.
type request struct {
	write func(*transaction) error // may be called again, in another transaction, when the first one failed
	size  int                      // in rows
	taken bool                     // into a transaction; guarded by the queue's lock
	done  chan error               // gets the result; has room for it, so that nobody has to be waiting
}

// commit has a write committed, and waits for that until ctx ends. What the write leaves behind may be looked at only if there is no error.
func (s *Store) commit(ctx context.Context, size int, write func(*transaction) error) error {
	r := &request{write: write, size: size, done: make(chan error, 1)}
	if err := s.enqueue(r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return s.fault("write to", err)
	case <-ctx.Done():
		return s.fault("write to", s.queue.leave(ctx, r))
	}
}

// A queue holds the requests that no transaction has taken yet. The goroutine that takes them, the committer, lives
// only while there are some: it is started by the request that finds none, and ends when it finds no request.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	closed  bool
	running chan struct{} // closed when the committer has ended; nil when there is none
}

// enqueue hands a request over and sees to it that a committer is there.
func (s *Store) enqueue(r *request) error {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	if r.size == 0 {
		r.done <- nil
		return nil
	}
	q.waiting = append(q.waiting, r)
	if q.running == nil {
		q.running = make(chan struct{})
		go s.commitWaiting(q.running)
	}
	return nil
}

// leave is called by a caller whose context has ended. It withdraws the request if it still can.
func (q *queue) leave(ctx context.Context, r *request) error {
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
	return fmt.Errorf("nothing was written: %w", ctx.Err())
}

// pending returns what waits now, without taking it.
func (q *queue) pending() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.waiting)
}

// wanted says whether anybody still waits.
func (q *queue) wanted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0
}

// take moves the requests of one transaction out of the queue: all, up to maxRows rows, and at least one.
func (q *queue) take() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
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

// refuse answers those of the requests that still wait.
func (q *queue) refuse(requests []*request, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(r *request) bool {
		refused := slices.Contains(requests, r)
		if refused {
			r.done <- err
		}
		return refused
	})
}

// retire ends the committer if nobody waits. Looking and ending are one step, so that no request falls in between.
func (q *queue) retire(running chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		return false
	}
	q.running = nil
	close(running)
	return true
}

// close takes no more requests, waits for the committer and reports whether it is the first to close.
func (q *queue) close() (first bool) {
	q.mu.Lock()
	first, q.closed = !q.closed, true
	running := q.running
	q.mu.Unlock()
	if running != nil {
		<-running
	}
	return first
}
