package sweep

import "time"

// Stats are what a sweeper did since it was made.
type Stats struct {
	Enabled  bool
	Interval time.Duration
	// Running tells that Run sweeps: it was called and has not returned. It is false for a disabled sweeper, and for one
	// whose host calls only [Sweeper.Sweep].
	Running bool
	// Passing tells that a pass is under way, of Run or of Sweep.
	Passing bool
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
	stats := s.stats
	stats.Running = stats.Enabled && s.running.Load()
	return stats
}

// begin notes that a pass is under way.
func (s *Sweeper) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Passing = true
}

// count adds a pass that is over. It was stopped if its context ended.
func (s *Sweeper) count(p Pass, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Passing = false
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
