package main

import (
	"context"
	"errors"
	"sync"

	"github.com/seed62658d38/watchdog"
)

// errDirected is the cause of a request's end when a directive came.
var errDirected = errors.New("the watchdog gave a directive")

// A steering ends the request under way when a directive comes: the loop polls directives at its boundaries, and a
// stream that hangs has none. It does nothing else with directives. Its methods are safe for concurrent use.
type steering struct {
	mu                    sync.Mutex
	received, polledCount int // the directives that came, and those that the loop has polled
	end                   context.CancelCauseFunc
}

// notify subscribes to the run's directives.
func (s *steering) notify(d watchdog.Directive) {
	if d.Kind == watchdog.DirectiveCancel { // it has ended the run's context already
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received += 1 + d.Dropped
	s.check()
}

// polled counts a directive that the loop has polled. The subscriber may be notified of it later.
func (s *steering) polled(d watchdog.Directive) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polledCount += 1 + d.Dropped
}

// steer returns the context of one request.
func (s *steering) steer(ctx context.Context) (_ context.Context, done func()) {
	ctx, end := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = end
	s.check()
	return ctx, s.leave
}

func (s *steering) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(nil)
	s.end = nil
}

// check ends the request if the loop has not polled every directive. The caller holds mu.
func (s *steering) check() {
	if s.end != nil && s.received > s.polledCount {
		s.end(errDirected)
	}
}
