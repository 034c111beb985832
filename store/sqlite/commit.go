package sqlite

import (
	"context"
	"errors"
)

// The committer first waits for the write lock, and takes the waiting requests only when it holds the lock. The longer
// another writer keeps the lock, the more requests share the next sync, and each can be withdrawn until then.
//
// Rejected: a savepoint for each request. It costs two more statements each, and does not help where it
// matters: a full disk, a trigger that rolls back and a deferred constraint take the whole transaction
// with them. A transaction that fails is rolled back and its requests are tried alone.

// errNobodyWaits ends the wait for the lock when every request was withdrawn.
var errNobodyWaits = errors.New("nobody waits for the commit any more")

// commitWaiting is the committer: it commits requests until none waits.
func (s *Store) commitWaiting(running chan struct{}) {
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
	if s.commitOne() {
		return
	}
	waiting := s.queue.pending()
	t, err := s.begin(context.Background(), s.queue.hasWaiting)
	if err != nil {
		s.queue.fail(waiting, s.answer(err))
		return
	}
	taken := s.queue.take()
	err = s.write(t, taken)
	if err != nil && len(taken) > 1 {
		s.writeAlone(taken)
		return
	}
	err = s.answer(err)
	for _, r := range taken {
		r.done <- err
	}
}

// commitOne writes the only waiting request if it is one statement, which SQLite commits by itself. It does not if the
// database is locked: then the statement did nothing, and commitNext waits for the lock. It waits for readers there,
// too, because only a transaction keeps new ones out meanwhile. A host's pool may be set to other transactions.
func (s *Store) commitOne() (written bool) {
	if !s.owned {
		return false
	}
	r := s.queue.takeOne()
	if r == nil {
		return false
	}
	t := &transaction{store: s}
	defer t.end()
	var err error
	if t.writer, err = s.connect(context.Background()); err == nil {
		err = r.write(t)
	}
	if t.writer == nil || isBusy(err) {
		s.queue.putBack(r)
		return false
	}
	r.done <- s.answer(err)
	return true
}

// write executes the requests in the transaction and ends it.
func (s *Store) write(t *transaction, requests []*request) error {
	defer t.end()
	for _, r := range requests {
		if err := r.write(t); err != nil {
			return err
		}
	}
	return t.commit()
}

// writeAlone gives each request its own transaction, so that only the request that cannot be stored fails.
func (s *Store) writeAlone(requests []*request) {
	for _, r := range requests {
		t, err := s.begin(context.Background(), nil)
		if err == nil {
			err = s.write(t, []*request{r})
		}
		r.done <- s.answer(err)
	}
}
