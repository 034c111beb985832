package sweep

import (
	"context"
	"time"
)

// Stats are what a sweeper did since it was made.
type Stats struct {
	Enabled  bool
	Interval time.Duration
	// Running tells that a pass is under way.
	Running bool
	// Passes is the number of passes, with those that ended early because their context ended.
	Passes int
	Tally
	// Last is the last pass, without its Cases and Errs; zero before there was one.
	Last Pass
	// ConsecutiveFailures is how many passes in a row failed, up to the last. A pass that ended because its context
	// did has not failed.
	ConsecutiveFailures int
	// Next is when Run has its next pass, or planned the one that is under way, by this host's clock. It is zero while
	// Run does not run.
	Next time.Time
}

// Stats returns what the sweeper did so far.
func (s *Sweeper) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// begin notes that a pass is under way.
func (s *Sweeper) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Running = true
}

// count adds a pass that is over. It was stopped if its context ended.
func (s *Sweeper) count(p Pass, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Running = false
	s.stats.Passes++
	s.stats.add(p.Tally)
	s.due = s.pending.due(time.Now())
	switch {
	case p.Err == nil:
		s.stats.ConsecutiveFailures = 0
	case !stopped:
		s.stats.ConsecutiveFailures++
	}
	p.Cases, p.Errs = nil, nil
	s.stats.Last = p
}

// setNext notes when Run has its next pass; zero means that it has none.
func (s *Sweeper) setNext(next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Next = next
}

func (s *Sweeper) nextDue() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}

// log writes the log of a pass of Run. A pass of Sweep is returned instead.
func (s *Sweeper) log(ctx context.Context, p Pass) {
	for _, err := range p.Errs {
		s.logger().Error("something went wrong about a session", "error", err)
	}
	switch {
	case p.Err != nil && ctx.Err() == nil:
		failures := s.Stats().ConsecutiveFailures
		s.logger().Error("a pass over the sessions failed", append(p.attrs(), "failures", failures, "error", p.Err)...)
	case p.Found > 0 || p.Errors > 0:
		s.logger().Info("a pass over the sessions is done", p.attrs()...)
	default:
		s.logger().Debug("a pass over the sessions found nothing", p.attrs()...)
	}
}
