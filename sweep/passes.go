package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// Passes is what the passes of a sweeper work with: the database, the settings, and what they remember from one to the
// next. Only the pass whose turn it is uses it.
type passes struct {
	finder    Finder
	canceller Canceller
	abilities
	cfg    Config
	query  session.Query
	madeAt time.Time

	number   int // of passes
	pending  pendings
	searched string // where the search for lost sessions behind the cap goes on
	database databaseClock
	rate     rate
	throttle throttle
}

func newPasses(finder Finder, canceller Canceller, able abilities, cfg Config) *passes {
	return &passes{
		finder: finder, canceller: canceller, abilities: able, cfg: cfg, madeAt: time.Now(),
		query:   session.Query{Threshold: cfg.StalledThreshold, MinAge: max(cfg.MinAge, 0)},
		pending: pendings{}, rate: rate{Alert: cfg.Alert},
		throttle: throttle{perMinute: cfg.MaxCancellationsPerMinute},
	}
}

func (p *passes) logger() *slog.Logger { return p.cfg.logger() }

// clock returns the time since the sweeper was made, by a clock that nobody sets.
func (p *passes) clock() time.Duration { return time.Since(p.madeAt) }

// certain returns how much of a length by the database's clock is certain now.
func (p *passes) certain(length time.Duration) time.Duration {
	return p.database.certain(length, p.clock())
}

// callHost makes a call of one of the host's funcs. It goes on when ctx ends, for the session in hand to be finished.
func (p *passes) callHost(ctx context.Context, call func(context.Context) error) error {
	_, err := bounded.Within(context.WithoutCancel(ctx), p.cfg.StopTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, call(ctx)
	})
	return err
}

// A databaseClock compares the database's clock with the sweeper's.
type databaseClock struct {
	first time.Time            // what it showed first
	last  verdict.ClockReading // if first is set
	// steppedAt is when a step forward was seen, by the sweeper's clock.
	stepped   bool
	steppedAt time.Duration
}

// read takes what the database's clock showed between two instants, and returns by how much it was set since the last
// time, or 0.
func (c *databaseClock) read(began, ended time.Duration, shown time.Time) (step time.Duration) {
	if c.first.IsZero() {
		c.first = shown
	} else {
		step = verdict.ClockStep(c.last, verdict.ClockReading{Began: began, Ended: ended, Shown: shown.Sub(c.first)})
	}
	c.last = verdict.ClockReading{Began: began, Ended: ended, Shown: shown.Sub(c.first)}
	if step > 0 {
		c.stepped, c.steppedAt = true, ended
	}
	return step
}

// now returns what the clock shows at the instant now, after it was read.
func (c *databaseClock) now(now time.Duration) time.Time {
	return c.first.Add(c.last.Shown + now - c.last.Ended)
}

// certain returns how much of a length by the database's clock is certain at the instant now: no more than has gone by
// since that clock was set forward.
func (c *databaseClock) certain(length, now time.Duration) time.Duration {
	if !c.stepped {
		return length
	}
	return min(length, now-c.steppedAt)
}
