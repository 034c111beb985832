package sweep

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// maxErrors is how many errors of a pass are kept. All are counted.
const maxErrors = 100

// A Tally counts what passes did.
type Tally struct {
	// Checked is how many sessions were judged, Found how many of them are stalled. The others were not stalled any
	// more, or not by the rules of this process.
	Checked, Found int
	// Cancelled sessions were ended. Spared ones had woken up or ended before their cancel. Failed ones could not be
	// warned or cancelled. Warned ones have their grace now. Deferred ones wait for the end of their grace, for
	// another try after a failure, for a pass that has cancels left, for another sweeper that has claimed them, for a
	// transaction that has locked their row, or for their silence to be certain after the database's clock was set.
	Cancelled, Spared, Failed, Warned, Deferred int
	// Resumed is how often the Start of a [ResumePolicy] succeeded. One that no attempt followed is called again.
	Resumed int
	// Errors counts everything that went wrong: rows that cannot be read, hooks, cancels, the pass itself.
	Errors int
	// EndStored is how many sessions had ended before, which only their rows did not say. They do now.
	EndStored int
	// LeasesExpired is how many processes were found dead or cut off. Their sessions count as those without a process.
	LeasesExpired int
	// Lost is how many of the cancelled sessions no cap counts: see [Config].MaxCancellationsPerRun.
	Lost int
}

func (t *Tally) add(other Tally) {
	t.Checked += other.Checked
	t.Found += other.Found
	t.Cancelled += other.Cancelled
	t.Spared += other.Spared
	t.Failed += other.Failed
	t.Warned += other.Warned
	t.Deferred += other.Deferred
	t.Resumed += other.Resumed
	t.Errors += other.Errors
	t.EndStored += other.EndStored
	t.LeasesExpired += other.LeasesExpired
	t.Lost += other.Lost
}

// A Pass is the result of one pass. It must not be changed.
type Pass struct {
	Tally
	// StartedAt is when the pass began, by this host's clock, and Duration how long it took.
	StartedAt time.Time
	Duration  time.Duration
	DryRun    bool
	// Behind is how many rows the leases named as behind when the pass began: see [session.Lease].
	Behind int
	// FleetDied tells that a process was found dead with which a whole fleet seems to have died or to be cut off. The
	// caps hold for its sessions.
	FleetDied bool
	// Cases are the sessions that the pass acted on, in that order: the longest stalled first.
	Cases []Case
	// Errs are the first 100 errors about single sessions. Each names its run.
	Errs []error
	// Err is why the pass ended early or did nothing, nil if it did not: the finder failed, the leases could not be
	// listed, ten sessions or more failed and nothing worked, or the context ended.
	Err error
}

func (p Pass) failure() error { return errors.Join(append(slices.Clip(p.Errs), p.Err)...) }

// addNews adds what was found out about leases.
func (p *Pass) addNews(news Pass) {
	p.Tally.add(news.Tally)
	p.FleetDied = p.FleetDied || news.FleetDied
	p.Errs = append(p.Errs, news.Errs[:min(len(news.Errs), maxErrors-len(p.Errs))]...)
}

func (p *Pass) addError(err error) {
	p.Errors++
	if len(p.Errs) < maxErrors {
		p.Errs = append(p.Errs, err)
	}
}

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
