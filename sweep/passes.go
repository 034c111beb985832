package sweep

import (
	"context"
	"log/slog"
	"time"

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
	_, err := limited(context.WithoutCancel(ctx), p.cfg.StopTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, call(ctx)
	})
	return err
}
