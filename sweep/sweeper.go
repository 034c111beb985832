package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// The errors of a [Sweeper].
var (
	// ErrDisabled is returned by [Sweeper.Sweep] if [Config].Disabled is set.
	ErrDisabled = errors.New("the sweeper is disabled")
	// ErrRunning is returned by [Sweeper.Run] if another call of Run has not returned yet.
	ErrRunning = errors.New("the sweeper runs already")
)

// A Sweeper cancels stalled sessions. Any number of sweepers, in any number of processes, can sweep one database. All
// methods are safe for concurrent use.
type Sweeper struct {
	*passes
	leases  *leases
	running atomic.Bool
	swept   chan struct{} // has room for one: a pass of Sweep is over
	passing chan struct{} // has room for one: whoever fills it has its pass

	mu       sync.Mutex
	stats    Stats
	underWay int       // passes
	due      time.Time // when the next pass should be before the interval; zero if it may wait
	brief    bool      // the wait after the last pass does not grow with its failures
}

// New makes a sweeper. A [session.Store] is both a finder and a canceller. New wraps [watchdog.ErrInvalid] if the
// finder or the canceller is nil, or if the config cannot be used.
func New(finder Finder, canceller Canceller, cfg Config) (*Sweeper, error) {
	cfg = cfg.withDefaults()
	flaw := cfg.flaw()
	able := abilitiesOf(finder, canceller)
	switch {
	case finder == nil || canceller == nil:
		flaw = "there is no finder or no canceller; pass both"
	case flaw == "" && cfg.Grace > 0 && able.warner == nil && able.appender == nil:
		flaw = "Grace is set, and the canceller has no method Warn or Append for the warning; add one, or set Grace to 0"
	}
	if flaw != "" {
		return nil, fmt.Errorf("%w sweeper config: %s", watchdog.ErrInvalid, flaw)
	}
	p := newPasses(finder, canceller, able, cfg)
	return &Sweeper{
		passes: p, leases: newLeases(able.observer, cfg, p.clock),
		swept: make(chan struct{}, 1), passing: make(chan struct{}, 1),
		stats: Stats{Enabled: !cfg.Disabled, Interval: cfg.Interval},
	}, nil
}

// Sweep has one pass now, beside Run or without it. It waits for a pass that is under way. It returns the pass, and
// joins everything that went wrong in it. It observes the leases that it suspects to the end, up to five of the longest
// promise, and takes the sessions of those that expire when they do; meanwhile Run has its passes. Sweep returns
// [ErrDisabled] if the sweeper is disabled, and wraps the cause of ctx if that ends before the pass starts. If ctx ends
// later, the pass ends after the sessions in hand, and after the pass that is under way.
func (s *Sweeper) Sweep(ctx context.Context) (Pass, error) {
	if s.cfg.Disabled {
		return Pass{}, ErrDisabled
	}
	if err := s.takeTurn(ctx); err != nil {
		return Pass{}, err
	}
	p := s.sweep(ctx)
	select {
	case s.swept <- struct{}{}:
	default:
	}
	return p, p.failure()
}

// sweep has a pass that observes leases to the end. It has the turn when it begins.
func (s *Sweeper) sweep(ctx context.Context) Pass {
	w, err := s.startPass(ctx, spent{}, false)
	stop := s.leases.observing(ctx)
	until := s.leases.suspected()
	taken, _, _ := s.leases.progress(until)
	s.leg(ctx, w, err)
	if w.pass.Err == nil && !w.pass.DryRun {
		s.endTurn()
		s.awaitSuspects(ctx, w, until, taken)
		s.passing <- struct{}{}
	}
	stop()
	defer s.endTurn()
	return s.endPass(ctx, w)
}

// awaitSuspects goes through the pages again whenever a lease has expired, until no suspect is left to wait for.
func (s *Sweeper) awaitSuspects(ctx context.Context, w *walk, until map[string]time.Duration, taken int) {
	for undecided := true; undecided && w.pass.Err == nil; {
		var dead int
		var changed <-chan struct{}
		dead, undecided, changed = s.leases.progress(until)
		switch {
		case dead > taken && s.takeTurn(ctx) == nil:
			taken = dead
			s.leg(ctx, w, nil)
			s.endTurn()
		case ctx.Err() != nil && (undecided || dead > taken):
			w.pass.Err = stopped(ctx)
		case undecided:
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// takeTurn waits until no other pass is under way. It returns an error if ctx ends before the pass starts.
func (s *Sweeper) takeTurn(ctx context.Context) error {
	select {
	case s.passing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the pass before: %w", context.Cause(ctx))
	}
	if ctx.Err() != nil {
		s.endTurn()
		return fmt.Errorf("begin a pass: %w", context.Cause(ctx))
	}
	return nil
}

func (s *Sweeper) endTurn() { <-s.passing }

// startPass begins a pass and lists the leases. What those before have spent of its cap counts. A pass because a
// process died leaves the starts that are due to the next one.
func (s *Sweeper) startPass(ctx context.Context, before spent, died bool) (w *walk, err error) {
	s.begin()
	w = s.newWalk(before)
	w.startsRuns = !died
	w.pass.Behind, err = s.leases.list(ctx)
	return w, err
}

// leg has a pass go through the stalled sessions, and notes when the next pass is due.
func (s *Sweeper) leg(ctx context.Context, w *walk, failed error) {
	w.leg(ctx, failed)
	due, brief := w.nextAt(), w.goesOn()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due, s.brief = due, brief
}

func (s *Sweeper) endPass(ctx context.Context, w *walk) Pass {
	w.pass.addNews(s.leases.takeNews())
	p := w.end()
	s.count(p, w.steps, ctx.Err() != nil)
	if s.cfg.OnPass != nil {
		if err := s.callHost(ctx, func(context.Context) error { s.cfg.OnPass(p); return nil }); err != nil {
			s.logger().Error("a callback of the sweeper failed", "callback", "OnPass", "error", err)
		}
	}
	return p
}

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
	s.logger().Debug("the sweeper starts", s.cfg.attrs()...)
	defer func() {
		stats := s.Stats()
		s.logger().Debug("the sweeper has ended", append([]any{"passes", stats.Passes}, stats.attrs()...)...)
	}()
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
			next = earliest(next, s.nextDue())
		}
		timer.Stop()
	}
}

func (s *Sweeper) untilNext() time.Duration {
	s.mu.Lock()
	failures, due := s.stats.ConsecutiveFailures, s.due
	if s.brief { // the wait does not grow with them
		failures = min(failures, 1)
	}
	s.mu.Unlock()
	switch {
	case failures > 0:
		wait := verdict.Doubled(min(shortestRetry, s.cfg.Interval), s.cfg.Interval, failures-1)
		return wait/2 + clocks.Spread(wait/2+1) // spreads the sweepers of a database that comes back
	case !due.IsZero():
		return min(s.cfg.Interval, max(time.Until(due), 0))
	}
	return s.cfg.Interval
}

func (s *Sweeper) nextDue() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}
