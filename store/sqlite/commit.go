package sqlite

import (
	"context"
	"errors"
)

// Requests are grouped by waiting for the write lock first and taking what waits only when it is held: the longer
// another writer keeps the lock, the more requests share the next sync, and each can be withdrawn until then.
//
// Rejected: a savepoint for each request. It costs two more statements each, and does not help where it
// matters: a full disk, a trigger that rolls back and a deferred constraint take the whole transaction
// with them. A transaction that fails is rolled back and its requests are tried alone.

// errUnwanted ends the wait for the lock when all who waited have left.
var errUnwanted = errors.New("nobody waits for the commit any more")

// commitWaiting is the committer: it commits what waits until nothing does.
func (s *Store) commitWaiting(running chan struct{}) {
	for !s.queue.retire(running) {
		s.commitNext()
	}
}

// commitNext writes one transaction for requests that wait, and one for each of them if that one fails.
func (s *Store) commitNext() {
	waiting := s.queue.pending()
	t, err := s.begin(context.Background(), s.queue.wanted)
	if err != nil {
		s.queue.refuse(waiting, err)
		return
	}
	taken := s.queue.take()
	err = s.write(t, taken)
	if err != nil && len(taken) > 1 {
		s.writeAlone(taken)
		return
	}
	for _, r := range taken {
		r.done <- err
	}
}

// write carries out the requests in the transaction and ends it.
func (s *Store) write(t *transaction, requests []*request) error {
	defer t.end()
	for _, r := range requests {
		if err := r.write(t); err != nil {
			return err
		}
	}
	return t.commit()
}

// writeAlone gives each request a transaction of its own, so that one that cannot be stored fails alone.
func (s *Store) writeAlone(requests []*request) {
	for _, r := range requests {
		t, err := s.begin(context.Background(), nil)
		if err == nil {
			err = s.write(t, []*request{r})
		}
		r.done <- err
	}
}
