package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// The errors of a [Sweeper].
var (
	// ErrDisabled is returned by [Sweeper.Sweep] if [Config].Disabled is set.
	ErrDisabled = errors.New("the sweeper is disabled")
	// ErrRunning is returned by [Sweeper.Run] if another call of Run has not returned yet.
	ErrRunning = errors.New("the sweeper runs already")
)

// shortestRetry is the wait after a pass that failed. It doubles with each failure in a row, up to the interval.
const shortestRetry = time.Second

// A Sweeper cancels stalled sessions. Any number of sweepers, in any number of processes, can sweep one database. All
// methods are safe for concurrent use.
type Sweeper struct {
	finder    Finder
	canceller Canceller
	abilities
	cfg    Config
	query  session.Query
	madeAt time.Time

	running atomic.Bool
	swept   chan struct{} // has room for one: a pass of Sweep is over
	passing chan struct{} // has room for one: whoever fills it has its pass
	// Only the goroutine whose pass it is uses these.
	pending  pendings
	leases   map[string]*observed // by ID, as they were seen last
	deaths   []time.Duration      // when leases were found dead, by the sweeper's clock
	searched string               // where the search for lost sessions behind the cap goes on
	database databaseClock
	rate     rate
	throttle throttle
	again    time.Time // when to have the next pass because this one left work; zero if that may wait
	goOn     bool      // the next pass should come soon though this one failed

	mu    sync.Mutex
	stats Stats
	due   time.Time // when the next pass should be before the interval; zero if it may wait
	brief bool      // the wait after the last pass does not grow with its failures
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
	case flaw == "" && cfg.Grace > 0 && !able.canWarn():
		flaw = "Grace is set, and the canceller has no method Warn or Append for the warning; add one, or set Grace to 0"
	}
	if flaw != "" {
		return nil, fmt.Errorf("%w sweeper config: %s", watchdog.ErrInvalid, flaw)
	}
	return &Sweeper{
		finder: finder, canceller: canceller, abilities: able, cfg: cfg, madeAt: time.Now(),
		query: session.Query{Threshold: cfg.StalledThreshold, MinAge: max(cfg.MinAge, 0)},
		swept: make(chan struct{}, 1), passing: make(chan struct{}, 1),
		pending: pendings{}, rate: rate{Alert: cfg.Alert},
		throttle: throttle{perMinute: cfg.MaxCancellationsPerMinute},
		stats:    Stats{Enabled: !cfg.Disabled, Interval: cfg.Interval},
	}, nil
}

// Run has a pass after the startup delay and then after every interval, or sooner if the grace of a session ends, or a
// lease with a long promise is to be looked at, until ctx ends. It then finishes the sessions in hand, starts no
// other, and returns nil; that takes at most as long as the host's funcs and the canceller may take. A pass that fails
// is in the log and in the [Stats]. The next pass comes a second later, and then after a wait that doubles with each
// failure, up to the interval; the wait does not grow while single sessions fail slowly and others wait behind them. A
// disabled sweeper only waits. Run returns [ErrRunning] if another call of Run has not returned yet.
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
	for wait := max(s.cfg.StartupDelay, 0); s.wait(ctx, wait); wait = s.untilNext() {
		if p, err := s.onePass(ctx, false); err == nil {
			s.log(ctx, p)
		}
	}
	return nil
}

// Sweep has one pass now, beside Run or without it. It waits for a pass that is under way. It returns the pass, and
// joins everything that went wrong in it. It observes each lease to the end, up to five of the longest promise, while
// passes of Run do not wait for leases of which that is longer than the interval. Sweep returns [ErrDisabled] if the
// sweeper is disabled, and wraps the cause of ctx if that ends before the pass starts. If ctx ends later, the pass ends
// after the sessions in hand.
func (s *Sweeper) Sweep(ctx context.Context) (Pass, error) {
	if s.cfg.Disabled {
		return Pass{}, ErrDisabled
	}
	p, err := s.onePass(ctx, true)
	if err != nil {
		return Pass{}, err
	}
	select {
	case s.swept <- struct{}{}:
	default:
	}
	return p, p.failure()
}

// onePass waits until no other pass is under way, and has a pass. It returns an error if ctx ends before the pass
// starts.
func (s *Sweeper) onePass(ctx context.Context, whole bool) (Pass, error) {
	select {
	case s.passing <- struct{}{}:
	case <-ctx.Done():
		return Pass{}, fmt.Errorf("wait for the pass before: %w", context.Cause(ctx))
	}
	defer func() { <-s.passing }()
	if ctx.Err() != nil {
		return Pass{}, fmt.Errorf("begin a pass: %w", context.Cause(ctx))
	}
	p := s.walk(ctx, whole)
	s.count(p, ctx.Err() != nil)
	if s.cfg.OnPass != nil {
		if err := s.callHost(ctx, func(context.Context) error { s.cfg.OnPass(p); return nil }); err != nil {
			s.logger().Error("a callback of the sweeper failed", "callback", "OnPass", "error", err)
		}
	}
	return p, nil
}

// planAgain notes when to go on after a pass: soon if it was full and only the cap in each minute limits the sweeper.
func (s *Sweeper) planAgain(full bool, handled int) {
	s.again = time.Time{}
	if full && !s.cfg.DryRun {
		s.again = s.throttle.next(time.Now(), handled)
	}
}

// wait waits for the next pass of Run, and reports whether there is one. The wait gets shorter if a pass of Sweep has
// warned a session whose grace ends sooner.
func (s *Sweeper) wait(ctx context.Context, wait time.Duration) bool {
	next := time.Now().Add(wait)
	for {
		s.setNext(next)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
			return ctx.Err() == nil
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-s.swept:
			timer.Stop()
			if due := s.nextDue(); !due.IsZero() && due.Before(next) {
				next = due
			}
		}
	}
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
