package main

import (
	"context"
	"errors"
	"sync"

	"github.com/seed62658d38/watchdog"
)

// errDirected is the cause of a request's end when there is a directive to heed.
var errDirected = errors.New("the watchdog asks for something else")

// A steering ends the request that the loop waits in when a directive came that it has to heed: the loop polls at its boundaries,
// and a stream that hangs has none. It does nothing else with directives. Methods are safe for concurrent use.
type steering struct {
	mu         sync.Mutex
	told, done int // directives that came and that the loop has heeded
	end        context.CancelCauseFunc
}

// tell is the subscriber of the run's directives.
func (s *steering) tell(d watchdog.Directive) {
	if d.Kind == watchdog.DirectiveCancel { // the run's context has ended already
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told += 1 + d.Dropped
	s.check()
}

// heeded notes a directive that the loop has polled, which the subscriber may be told of later.
func (s *steering) heeded(d watchdog.Directive) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done += 1 + d.Dropped
}

// steer returns the context for one request.
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

// check ends the request if there is something to heed. The caller holds mu.
func (s *steering) check() {
	if s.end != nil && s.told > s.done {
		s.end(errDirected)
	}
}
