package sweep

import (
	"context"
	"math"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// shortestRetry is the wait after a pass that failed. It doubles with each failure in a row, up to the interval.
const shortestRetry = time.Second

// Run has a pass after the startup delay and then after every interval, or sooner if the grace of a session ends, until
// ctx ends. From the first pass on it observes the leases beside its passes, each by its own promise. When one expires
// it has a pass at once, or after the one that is under way. The next pass stays where it is, and of sessions that only
// look stalled both cancel no more than one may.
//
// When ctx ends, Run finishes the sessions in hand, starts no other, and returns nil; that takes at most as long as the
// host's funcs and the canceller may take. A pass that fails is in the log and in the [Stats]. The next one comes a
// second later, and then after a wait that doubles with each failure, up to the interval; the wait does not grow while
// single sessions fail slowly and others wait behind them. A disabled sweeper only waits. Run returns [ErrRunning] if
// another call of Run has not returned yet.
func (s *Sweeper) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer s.running.Store(false)
	s.logStart()
	defer s.logEnd()
	if s.cfg.Disabled {
		<-ctx.Done()
		return nil
	}
	defer s.setNext(time.Time{})
	next, _, goOn := s.wait(ctx, time.Now().Add(max(s.cfg.StartupDelay, 0)), math.MaxInt)
	if goOn {
		defer s.leases.observing(ctx)()
	}
	used := spent{}
	for died := false; goOn; {
		if !died {
			used = spent{}
		}
		taken, _, _ := s.leases.progress(nil)
		if s.takeTurn(ctx) != nil {
			break
		}
		p := s.pass(ctx, &used, died)
		s.log(ctx, p)
		if after := time.Now().Add(s.untilNext()); !died || after.Before(next) {
			next = after
		}
		next, died, goOn = s.wait(ctx, next, taken)
	}
	return nil
}

// pass has a pass of Run, which has the turn, and notes what is used of the cap.
func (s *Sweeper) pass(ctx context.Context, used *spent, died bool) Pass {
	defer s.endTurn()
	w, err := s.startPass(ctx, *used, died)
	s.leg(ctx, w, err)
	*used = w.spent
	return s.endPass(ctx, w)
}

// wait waits for the next pass of Run, and reports whether there is one. That is sooner if a pass of Sweep has warned a
// session whose grace ends before it. If more leases died than were taken, there is a pass at once, unless the next one
// is due anyhow.
func (s *Sweeper) wait(ctx context.Context, next time.Time, taken int) (at time.Time, died, goOn bool) {
	for {
		s.setNext(next)
		dead, _, changed := s.leases.progress(nil)
		if dead > taken {
			return next, time.Now().Before(next), ctx.Err() == nil
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
			return next, false, ctx.Err() == nil
		case <-ctx.Done():
			timer.Stop()
			return next, false, false
		case <-changed:
		case <-s.swept:
			if due := s.nextDue(); !due.IsZero() {
				next = earliest(next, due)
			}
		}
		timer.Stop()
	}
}

// untilNext returns the time until the next pass of Run.
func (s *Sweeper) untilNext() time.Duration {
	if failures := s.failuresToWaitFor(); failures > 0 {
		wait := verdict.Doubled(min(shortestRetry, s.cfg.Interval), s.cfg.Interval, failures-1)
		return wait/2 + clocks.Spread(wait/2+1) // spreads the sweepers of a database that comes back
	}
	if due := s.nextDue(); !due.IsZero() {
		return min(s.cfg.Interval, max(time.Until(due), 0))
	}
	return s.cfg.Interval
}

// failuresToWaitFor returns how many passes in a row failed, as far as the wait for the next one grows with them.
func (s *Sweeper) failuresToWaitFor() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.brief {
		return min(s.stats.ConsecutiveFailures, 1)
	}
	return s.stats.ConsecutiveFailures
}

// setDue notes when the next pass should be before the interval, zero if it may wait, and whether the wait is brief.
func (s *Sweeper) setDue(due time.Time, brief bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due, s.brief = due, brief
}

func (s *Sweeper) nextDue() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}
