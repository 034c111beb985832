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
	// Passes is how many there were; those that a stop ended early are counted, too.
	Passes int
	Tally
	// Last is the last pass, without its Cases and Errs; zero before there was one.
	Last Pass
	// ConsecutiveFailures is how many passes in a row failed, up to the last: those whose Err is not their own context's.
	ConsecutiveFailures int
	// Next is when Run has its next pass, or was to have the one under way, by this host's clock. It is zero while it does not run.
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

// count notes what a pass came to.
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

// plan notes when the next pass is, and zero for none.
func (s *Sweeper) plan(next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Next = next
}

func (s *Sweeper) firstDue() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}

// log tells of a pass that nobody is returned.
func (s *Sweeper) log(ctx context.Context, p Pass) {
	for _, err := range p.Errs {
		s.logger().Error("something went wrong about a session", "error", err)
	}
	switch {
	case p.Err != nil && ctx.Err() == nil:
		s.logger().Error("a pass over the sessions failed", append(p.attrs(), "failures", s.Stats().ConsecutiveFailures, "error", p.Err)...)
	case p.Found > 0 || p.Errors > 0:
		s.logger().Info("a pass over the sessions is done", p.attrs()...)
	default:
		s.logger().Debug("a pass over the sessions found nothing", p.attrs()...)
	}
}

func (p Pass) attrs() []any {
	return []any{
		"checked", p.Checked, "found", p.Found, "cancelled", p.Cancelled, "spared", p.Spared, "failed", p.Failed, "warned", p.Warned,
		"deferred", p.Deferred, "resumed", p.Resumed, "errors", p.Errors, "duration", p.Duration, "dry_run", p.DryRun,
	}
}
