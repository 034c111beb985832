package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

const (
	// maxPage is the largest page that a walk asks for.
	maxPage = 100
	// stalePage is the age at which a page is read again. Its sessions may have woken up since, and the stop hook
	// ends their agents without the check that guards the cancel.
	stalePage = 10 * time.Second
	// searchFor is how long a full pass goes on through pages in which no session is lost.
	searchFor = 10 * time.Second
)

// A walk goes through the stalled sessions: it is a pass while it lasts.
type walk struct {
	*passes
	failures
	number     int // of the pass, from 1
	pass       Pass
	most       int // cancels, and warnings, of those that count
	spent          // what the pass has used of that
	seen       map[string]bool
	tryBegan   time.Time       // at the session in hand
	planned    []planned       // cancels that are not written yet
	startsRuns bool            // it calls Start for the runs whose start is due
	startsLeft bool            // there may be more of them
	complete   bool            // every stalled session was seen
	lostAt     time.Time       // of the last page that had lost sessions, or of the first that was read only for such
	steps      []time.Duration // by which the database's clock was set
}

// Spent counts the cancels and the warnings that count toward the cap of a pass.
type spent struct{ counted, warned int }

// newWalk begins a pass. What those before have spent of its cap counts.
func (p *passes) newWalk(before spent) *walk {
	p.number++
	began := time.Now()
	return &walk{
		passes: p, number: p.number, seen: map[string]bool{}, spent: before,
		pass: Pass{StartedAt: began, DryRun: p.cfg.DryRun},
		most: before.counted + min(p.cfg.maxCancellations()-before.counted, p.throttle.room(began)),
	}
}

// leg goes through the stalled sessions. A pass can have several, and others can have theirs in between. What failed
// before makes the pass a failed one.
func (w *walk) leg(ctx context.Context, failed error) {
	w.pass.Err = errors.Join(w.pages(ctx), failed)
	w.settleGone(ctx)
	if w.startsRuns {
		w.takeStarts(ctx)
	}
	w.holdBack()
	w.pending.forget(w.number, w.complete, time.Now())
}

func (w *walk) end() Pass {
	if w.pass.Err == nil && w.nothingWorked() {
		w.pass.Err = w.tooMany()
	}
	if w.pass.Err != nil {
		w.pass.Errors++
	}
	w.pass.Duration = time.Since(w.pass.StartedAt)
	return w.pass
}

// nextAt returns when to have the next pass because this one left work; zero if that may wait. It is soon if the pass
// was full and only the cap in each minute limits the sweeper.
func (w *walk) nextAt() (at time.Time) {
	if w.startsLeft {
		return time.Now()
	}
	if w.full() && !w.cfg.DryRun {
		at = w.throttle.next(time.Now(), max(w.counted, w.warned))
	}
	return earliest(w.pending.due(time.Now()), at)
}

func stopped(ctx context.Context) error { return fmt.Errorf("stopped: %w", context.Cause(ctx)) }

// A page is a page of sessions and when it came.
type page struct {
	session.Page
	came time.Time
}

// now returns the database's time: the time of the page and the time that went by since it came.
func (p page) now() time.Time { return p.Now.Add(time.Since(p.came)) }

// pages goes through the pages of stalled sessions, and skips the sessions that it has seen. A pass that is full goes
// on for the lost sessions alone.
func (w *walk) pages(ctx context.Context) error {
	after, searching := "", false
	for {
		if w.full() && !searching {
			after, searching = w.search(after), true
		}
		if searching && time.Since(w.lostAt) > searchFor {
			w.searched = after
			return nil
		}
		next, err := w.onePage(ctx, after)
		if err != nil {
			return err
		}
		if next == "" {
			w.complete = !searching && !w.full()
			return nil
		}
		after = next
	}
}

// onePage goes through a page, and returns where the next one begins. It reads a page again that has become stale.
func (w *walk) onePage(ctx context.Context, after string) (next string, err error) {
	for stale := true; stale; {
		found, err := w.page(ctx, after)
		if err != nil {
			return "", err
		}
		stale, err = w.sessions(ctx, found)
		if slices.ContainsFunc(found.Sessions, func(s session.Session) bool { return s.Lost }) {
			w.lostAt = time.Now()
		}
		if err != nil {
			return "", err
		}
		next = found.Next
	}
	if next != "" && next == after {
		return "", fmt.Errorf("ask for stalled sessions: the finder gave the page after %q twice", after)
	}
	return next, nil
}

// search begins a search for lost sessions behind those that a full pass has to leave, or goes on where the pass before
// had to stop.
func (w *walk) search(after string) string {
	from := cmp.Or(w.searched, after)
	w.searched, w.lostAt = "", time.Now()
	return from
}

func (w *walk) page(ctx context.Context, after string) (page, error) {
	q := w.query
	q.After, q.Limit = after, w.pageLimit()
	began := w.clock()
	found, err := bounded.Within(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Page, error) {
		return w.finder.Stalled(ctx, q)
	})
	switch {
	case err != nil:
		return page{}, fmt.Errorf("ask for stalled sessions: %w", err)
	case found.Now.IsZero():
		return page{}, errors.New(
			"ask for stalled sessions: the finder does not say what time it is; set the Now of its pages")
	}
	w.readClock(began, w.clock(), found.Now)
	for _, err := range found.Unreadable {
		w.addUnreadable(err.Error(), err)
	}
	return page{found, time.Now()}, nil
}

// pageLimit returns how many sessions to ask for: as many as may be cancelled, and those that may have to wait.
func (w *walk) pageLimit() int {
	if w.full() || !w.lostAt.IsZero() {
		return maxPage
	}
	return min(min(w.left(), maxPage)+len(w.pending), maxPage)
}

// readClock notes what the database's clock showed in an answer that began and ended at two instants.
func (w *walk) readClock(began, ended time.Duration, shown time.Time) {
	step := w.database.read(began, ended, shown)
	if step == 0 {
		return
	}
	direction := "forward"
	if step < 0 {
		direction = "back"
	}
	w.logger().Warn("the clock of the database was set; silence by it is not certain for a while",
		"step", step, "direction", direction)
	w.steps = append(w.steps, step)
}

func (w *walk) alert(ctx context.Context) {
	alert, cancels := w.rate.add(time.Now())
	if !alert {
		return
	}
	w.logger().Warn("many sessions were cancelled", "cancels", cancels, "within", w.rate.Within)
	if err := w.callHost(ctx, func(ctx context.Context) error { w.rate.Func(ctx, cancels); return nil }); err != nil {
		w.pass.addError(fmt.Errorf("alert of %d cancels: %w", cancels, err))
	}
}

func (w *walk) addCase(c Case, handling Handling) {
	c.Handling = handling
	w.pass.Cases = append(w.pass.Cases, c)
}

// addUnreadable counts a row that cannot be judged, once.
func (w *walk) addUnreadable(key string, err error) {
	if key = "unreadable " + key; w.seen[key] {
		return
	}
	w.seen[key] = true
	w.pass.Checked++
	w.pass.addError(err)
}
