package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

const (
	// maxPage is how many sessions are asked for at once.
	maxPage = 100
	// stalePage is how old a page may be: its sessions may have woken up since, and what stops their agents is not guarded as the cancel is.
	stalePage = 10 * time.Second
	// maxFailuresInARow is after how many it is the database, and not the sessions.
	maxFailuresInARow = 10
	// maxErrors is how many errors of a pass are kept. All are counted.
	maxErrors = 100
)

// A Tally counts what passes came to.
type Tally struct {
	// Checked is how many sessions were judged, Found how many of them are stalled. The others were not any more, or not by the rules of this process.
	Checked, Found int
	// Cancelled sessions were, Spared ones had woken up or ended when they were to be, of Failed ones it failed. Warned ones have their grace, and Deferred ones wait: for its
	// end, or for another try after a failure.
	Cancelled, Spared, Failed, Warned, Deferred int
	// Resumed is how many of the cancelled ones the policy had started again.
	Resumed int
	// Errors is everything that went wrong: rows that cannot be read, hooks, cancels, the pass itself.
	Errors int
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
}

// A Pass is what one pass came to. It must not be changed.
type Pass struct {
	Tally
	// StartedAt is when it began, by this host's clock, and Duration how long it took.
	StartedAt time.Time
	Duration  time.Duration
	DryRun    bool
	// Cases are the sessions that were acted upon, in that order: the longest stalled first.
	Cases []Case
	// Errs are the first 100 errors about single sessions. They name the run.
	Errs []error
	// Err is why the pass ended early, nil where it did not: the source failed, ten cancels in a row did, or its context ended.
	Err error
}

// failure is all that went wrong.
func (p Pass) failure() error { return errors.Join(append(slices.Clip(p.Errs), p.Err)...) }

// A Handling is what became of a session.
type Handling string

// The handlings.
const (
	// CaseCancelled sessions were ended.
	CaseCancelled Handling = "cancelled"
	// CaseSpared ones were not as they had been judged any more.
	CaseSpared Handling = "spared"
	// CaseFailed ones could not be warned or cancelled: it is tried again, in later and later passes.
	CaseFailed Handling = "failed"
	// CaseWarned ones have their grace.
	CaseWarned Handling = "warned"
	// CaseWouldCancel is what a dry run says instead of acting.
	CaseWouldCancel Handling = "would_cancel"
)

// A Case is one stalled session in a pass.
type Case struct {
	// Session is the row as it was judged.
	Session session.Session
	// Silence is how long it had nothing new, by the database's clock, and Threshold how long it may.
	Silence, Threshold time.Duration
	Handling           Handling
	// Resumed tells that the policy had it started again.
	Resumed bool
}

// A sweeping is a pass while it lasts.
type sweeping struct {
	*Sweeper
	number   int
	began    time.Time
	pass     Pass
	seen     map[string]bool
	inARow   int
	complete bool // every stalled session was seen
}

func (s *Sweeper) sweep(ctx context.Context) Pass {
	s.begin()
	now := time.Now()
	p := &sweeping{Sweeper: s, number: s.Stats().Passes + 1, began: now, seen: map[string]bool{}, pass: Pass{StartedAt: now, DryRun: s.cfg.DryRun}}
	p.pass.Err = p.pages(ctx)
	if p.pass.Err != nil {
		p.pass.Errors++
	}
	now = time.Now()
	s.pending.forget(p.number, p.complete, now)
	p.pass.Duration = now.Sub(p.began)
	return p.pass
}

// A page is one with when it came.
type page struct {
	session.Page
	came time.Time
}

// now is the database's clock, by how much time went by here since the page came.
func (p page) now() time.Time { return p.Now.Add(time.Since(p.came)) }

// pages goes through what is stalled, the longest first. It begins anew when a page has become old; what it has seen it leaves alone then.
func (p *sweeping) pages(ctx context.Context) error {
	after := ""
	for {
		found, err := p.page(ctx, after)
		if err != nil {
			return err
		}
		again, err := p.sessions(ctx, found)
		switch {
		case err != nil:
			return err
		case p.full():
			return nil
		case again:
			after = ""
			continue
		case found.Next == "":
			p.complete = true
			return nil
		case found.Next == after:
			return fmt.Errorf("ask for stalled sessions: the source gave the page after %q twice", after)
		}
		after = found.Next
	}
}

func (p *sweeping) page(ctx context.Context, after string) (page, error) {
	q := p.query
	q.After, q.Limit = after, min(min(p.room(), maxPage)+len(p.pending), maxPage)
	found, err := limited(ctx, p.cfg.RecordTimeout, func(ctx context.Context) (session.Page, error) { return p.finder.Stalled(ctx, q) })
	switch {
	case err != nil:
		return page{}, fmt.Errorf("ask for stalled sessions: %w", err)
	case found.Now.IsZero():
		return page{}, errors.New("ask for stalled sessions: the source does not say what time it is; set the Now of its pages")
	}
	for _, err := range found.Unreadable {
		p.unreadable(err.Error(), err)
	}
	return page{found, time.Now()}, nil
}

// sessions takes up the sessions of a page, unless the page has become old before all were.
func (p *sweeping) sessions(ctx context.Context, found page) (again bool, err error) {
	for _, s := range found.Sessions {
		switch {
		case ctx.Err() != nil:
			return false, fmt.Errorf("stopped: %w", context.Cause(ctx))
		case p.full():
			return false, nil
		case p.seen["run "+s.RunID]:
			continue
		case time.Since(found.came) > stalePage:
			return true, nil
		}
		p.seen["run "+s.RunID] = true
		p.pending.saw(s.RunID, p.number)
		if err := p.take(context.WithoutCancel(ctx), s, found); err != nil {
			return false, err
		}
	}
	return false, nil
}

// take judges a session, and does what there is to do. The error is one that ends the pass.
func (p *sweeping) take(ctx context.Context, s session.Session, found page) error {
	if flaw := flawOf(s); flaw != "" {
		p.unreadable("run "+s.RunID, fmt.Errorf("%w: run %q: %s", session.ErrUnreadable, s.RunID, flaw))
		return nil
	}
	p.pass.Checked++
	now := found.now()
	c := Case{Session: s, Silence: now.Sub(s.SilentSince()), Threshold: cmp.Or(s.Threshold, p.query.Threshold)}
	limits := verdict.SessionLimits{Threshold: c.Threshold, MinAge: p.query.MinAge}
	if s.Status != session.Active || !verdict.Stalled(limits, now.Sub(s.CreatedAt), c.Silence) {
		return nil
	}
	p.pass.Found++
	return p.act(ctx, c, now)
}

// flawOf says what makes a row unreadable, or nothing. It is never a reason to cancel.
func flawOf(s session.Session) string {
	switch {
	case s.RunID == "":
		return "it has no name"
	case s.CreatedAt.IsZero():
		return "it has no time of creation"
	case s.Threshold < 0:
		return fmt.Sprintf("its threshold is %v", s.Threshold)
	}
	return ""
}

// act does what there is to do about a stalled session.
func (p *sweeping) act(ctx context.Context, c Case, now time.Time) error {
	m := p.pending.of(c.Session)
	switch {
	case p.pass.DryRun:
		p.done(c, CaseWouldCancel)
		p.logger().Info("a stalled session would be cancelled", c.attrs()...)
	case time.Now().Before(m.next):
		p.pass.Deferred++
	case p.cfg.Grace > 0 && m.warnedAt.IsZero():
		if p.pass.Warned >= p.cfg.most() {
			p.pass.Deferred++
			return nil
		}
		return p.warn(ctx, c, m, now)
	case p.pass.Cancelled >= p.cfg.most():
		p.pass.Deferred++
	default:
		return p.cancel(ctx, c, m, now)
	}
	return nil
}

// room is how many more sessions may be cancelled, or warned.
func (p *sweeping) room() int {
	used, most := p.pass.Cancelled, p.cfg.most()
	switch {
	case p.pass.DryRun:
		used = len(p.pass.Cases)
	case p.cfg.Grace > 0 && (p.pass.Warned < most || p.dueLeft()):
		used = min(used, p.pass.Warned)
	case p.cfg.Grace > 0:
		used = most
	}
	return most - used
}

// dueLeft reports whether there is still to come what was warned and has had its grace.
func (p *sweeping) dueLeft() bool {
	now := time.Now()
	for _, m := range p.pending {
		if !m.warnedAt.IsZero() && m.pass != p.number && !now.Before(m.next) {
			return p.pass.Cancelled < p.cfg.most()
		}
	}
	return false
}

// full reports whether the pass has done what it may.
func (p *sweeping) full() bool { return p.room() <= 0 }

// unreadable counts a row that cannot be judged, once.
func (p *sweeping) unreadable(key string, err error) {
	if key = "unreadable " + key; p.seen[key] {
		return
	}
	p.seen[key] = true
	p.pass.Checked++
	p.fault(err)
}

// fault counts an error about one session.
func (p *sweeping) fault(err error) {
	p.pass.Errors++
	if len(p.pass.Errs) < maxErrors {
		p.pass.Errs = append(p.pass.Errs, err)
	}
}

// stalledRun returns the case as its events have it.
func (c Case) stalledRun(at time.Time, warned bool) StalledRun {
	s := c.Session
	start := s.StartedAt
	if start.IsZero() {
		start = s.CreatedAt // no watchdog ever ran this session
	}
	return StalledRun{
		RunID: s.RunID, Parent: s.Parent, StartedAt: start, LastEventAt: s.LastEventAt,
		DecidedAt: at, Silence: c.Silence, Threshold: c.Threshold, Warned: warned,
	}
}
