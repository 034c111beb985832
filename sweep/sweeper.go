package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A Finder finds stalled sessions, as the method of a [session.Store] does. What it returns is judged again, and only
// what is [session.Active] can be stalled: a host whose database cannot judge may return all that are.
type Finder interface {
	Stalled(ctx context.Context, q session.Query) (session.Page, error)
}

// A Canceller ends a session that is still as it was judged, as the method of a [session.Store] does.
type Canceller interface {
	Cancel(ctx context.Context, judged session.Session, c session.CancelRequest) (cancelled bool, err error)
}

// An appender is the part of a [watchdog.EventStore] that warnings need.
type appender interface {
	Append(ctx context.Context, events ...watchdog.Event) error
}

// The errors of a [Sweeper].
var (
	// ErrDisabled is returned by [Sweeper.Sweep] where [Config].Disabled is set.
	ErrDisabled = errors.New("the sweeper is disabled")
	// ErrRunning is returned by a second [Sweeper.Run] while the first one lasts.
	ErrRunning = errors.New("the sweeper runs already")
)

// The time after a pass that failed: it doubles with each in a row, up to the interval.
const shortestRetry = time.Second

// A Sweeper cancels stalled sessions. Any number of them, in any number of processes, can sweep one database. All methods are safe for concurrent use.
type Sweeper struct {
	finder    Finder
	canceller Canceller
	cfg       Config
	query     session.Query

	running atomic.Bool
	asked   chan struct{} // has room for one: a pass was asked for and is over
	turn    chan struct{} // has room for one: who put it there has its pass
	// What follows belongs to whose turn it is.
	pending pendings
	rate    rate

	mu    sync.Mutex
	stats Stats
	due   time.Time // when the first session's grace is over; zero where there is none
}

// New makes a sweeper. A [session.Store] is both a source and a canceller. A config that cannot be used is an error that wraps [watchdog.ErrInvalid].
func New(source Finder, canceller Canceller, cfg Config) (*Sweeper, error) {
	cfg = cfg.merged()
	flaw := cfg.flaw()
	_, appends := canceller.(appender)
	switch {
	case source == nil || canceller == nil:
		flaw = "there is no source or no canceller; pass both"
	case flaw == "" && cfg.Grace > 0 && !appends:
		flaw = "Grace is set, and the canceller has no method Append for the warning; add it, or set Grace to 0"
	}
	if flaw != "" {
		return nil, fmt.Errorf("%w sweeper config: %s", watchdog.ErrInvalid, flaw)
	}
	return &Sweeper{
		finder: source, canceller: canceller, cfg: cfg,
		query: session.Query{Threshold: cfg.StalledThreshold, MinAge: max(cfg.MinAge, 0)},
		asked: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		pending: pendings{}, rate: rate{Alert: cfg.Alert},
		stats: Stats{Enabled: !cfg.Disabled, Interval: cfg.Interval},
	}, nil
}

// Run sweeps after the startup delay and then every interval, or sooner where the grace of a session is over, until the context ends, and returns nil. It then finishes the session
// in hand and begins no other, which takes at most as long as the host's funcs and the canceller may. A pass that fails is in the log and in the [Stats]; the next
// comes after a second, and then after twice as long each time, up to the interval. If the sweeper is disabled Run only waits. Of two at once the second returns [ErrRunning].
func (s *Sweeper) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer s.running.Store(false)
	if s.cfg.Disabled {
		<-ctx.Done()
		return nil
	}
	defer s.plan(time.Time{})
	for wait := max(s.cfg.StartupDelay, 0); s.rest(ctx, wait); wait = s.pause() {
		if p, err := s.pass(ctx); err == nil {
			s.log(ctx, p)
		}
	}
	return nil
}

// Sweep has one pass at once: while Run waits, after a pass that is under way, or without Run. It returns the pass and all that went wrong in it, joined; [ErrDisabled], or the error of
// a context that ended before the pass began. A context that ends later ends the pass, after the session in hand.
func (s *Sweeper) Sweep(ctx context.Context) (Pass, error) {
	if s.cfg.Disabled {
		return Pass{}, ErrDisabled
	}
	p, err := s.pass(ctx)
	if err != nil {
		return Pass{}, err
	}
	select {
	case s.asked <- struct{}{}:
	default:
	}
	return p, p.failure()
}

// pass waits for its turn, and has a pass. The error is that of a context which ended before.
func (s *Sweeper) pass(ctx context.Context) (Pass, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return Pass{}, fmt.Errorf("wait for the pass before: %w", context.Cause(ctx))
	}
	defer func() { <-s.turn }()
	if ctx.Err() != nil {
		return Pass{}, fmt.Errorf("begin a pass: %w", context.Cause(ctx))
	}
	p := s.sweep(ctx)
	s.count(p, ctx.Err() != nil)
	if s.cfg.OnPass != nil {
		if err := s.callHost(ctx, func(context.Context) error { s.cfg.OnPass(p); return nil }); err != nil {
			s.logger().Error("a callback of the sweeper failed", "callback", "OnPass", "error", err)
		}
	}
	return p, nil
}

// rest waits for the next pass, and reports whether there is to be one.
func (s *Sweeper) rest(ctx context.Context, wait time.Duration) bool {
	next := time.Now().Add(wait)
	for {
		s.plan(next)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
			return ctx.Err() == nil
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-s.asked:
			timer.Stop()
			if due := s.firstDue(); !due.IsZero() && due.Before(next) {
				next = due
			}
		}
	}
}

// pause is the time until the next pass.
func (s *Sweeper) pause() time.Duration {
	if failures := s.Stats().ConsecutiveFailures; failures > 0 {
		wait := doubled(min(shortestRetry, s.cfg.Interval), s.cfg.Interval, failures-1)
		return wait/2 + rand.N(wait/2+1) // so that the sweepers of a database that comes back do not come at once
	}
	if due := s.firstDue(); !due.IsZero() {
		return min(s.cfg.Interval, max(time.Until(due), 0))
	}
	return s.cfg.Interval
}

// doubled is a time that is doubled some times, up to another.
func doubled(d, most time.Duration, times int) time.Duration {
	for range times {
		if d >= most/2 {
			return most
		}
		d *= 2
	}
	return min(d, most)
}

func (s *Sweeper) logger() *slog.Logger {
	if s.cfg.Logger == nil {
		return slog.Default()
	}
	return s.cfg.Logger
}
