package sweep

import "time"

// Stats are what a sweeper did since it was made.
type Stats struct {
	Enabled  bool
	Interval time.Duration
	// Running tells that Run sweeps: it was called and has not returned. It is false for a disabled sweeper, and for one
	// whose host calls only [Sweeper.Sweep].
	Running bool
	// Passing tells that a pass is under way, of Run or of Sweep, also one of Sweep that waits for leases.
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
	// ClockSteps is how often the database's clock was set by more than a few seconds, compared with the clock of this
	// process. LastClockStep is by how much it was the last time; negative if it was set back. A machine that was
	// suspended sees a step forward.
	ClockSteps    int
	LastClockStep time.Duration
}

// Stats returns what the sweeper did so far.
func (s *Sweeper) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Running, stats.Passing = stats.Enabled && s.running.Load(), s.underWay > 0
	return stats
}

// begin notes that a pass is under way.
func (s *Sweeper) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay++
}

// count adds a pass that is over. It was stopped if its context ended.
func (s *Sweeper) count(p Pass, steps []time.Duration, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	s.stats.Passes++
	s.stats.add(p.Tally)
	switch {
	case p.Err == nil:
		s.stats.ConsecutiveFailures = 0
	case !stopped:
		s.stats.ConsecutiveFailures++
	}
	for _, step := range steps {
		s.stats.ClockSteps++
		s.stats.LastClockStep = step
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
