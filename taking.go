package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// An admission is how a call is admitted that had to ask the store before.
type admission struct {
	before *shortage // what was missing; nil for a call that begins
	owes   bool      // it is charged though the store has not granted it
}

// A shortage is what a call lacks of a pool.
type shortage struct {
	of     *account
	draw   *draw
	least  verdict.Counts
	limit  verdict.Counts
	steps  [len(verdict.Counts{})]int // that the limits had taken when the call began
	use    verdict.Use
	before *shortage // of another pool
}

// limit is up to where the draw's limits admit the call: as they were when it began, so that calls which wait together
// and are refused together are one trip, and do not use up what the first of them unlocks.
func (how *admission) limit(a *account, d *draw) verdict.Counts {
	limit := a.open(d)
	if s := how.of(d); s != nil {
		for kind := range limit {
			limit[kind] = min(limit[kind], s.limit[kind])
		}
	}
	return limit
}

// of is what was missing of that pool, nil if nothing was.
func (how *admission) of(d *draw) *shortage {
	s := how.before
	for s != nil && s.draw != d {
		s = s.before
	}
	return s
}

// shortage is what a call lacks of a pool. The caller holds mu of the book.
func (a *account) shortage(d *draw, use *verdict.Use, least, limit *verdict.Counts, how *admission) *shortage {
	s := &shortage{of: a, draw: d, least: *least, limit: *limit, use: *use, before: how.before}
	switch known := how.of(d); {
	case known == nil:
		for kind, i := range d.limits {
			if i >= 0 {
				s.steps[kind] = a.spend.Counts[i].Steps
			}
		}
	default:
		s.steps = known.steps
		if s.before == known {
			s.before = known.before
		}
	}
	return s
}

// fetch takes a slice of what is missing, or waits for one that is being taken. It returns the limit that the call does
// not fit in, and whether the run has to be looked at for that. For a run that is only observed it takes by force what
// will not fit, so that the store is asked once.
func (s *shortage) fetch(ctx context.Context, r *recorder) (refused *Refused, look bool, err error) {
	p := s.draw.pool
	need := s.draw.need(&s.use)
	force := s.of.spend.ObserveOnly && p.refusing(&need, &s.limit) >= 0
	fits, err := p.take(ctx, r, p.slice(&s.least, &s.limit, force))
	if err != nil || fits && !force {
		return nil, false, err
	}
	refused, look = s.refusal()
	return refused, look, nil
}

// refusal is the limit that the store found used up, nil if something was given back since. It is noted as a trip,
// unless there was one while the call waited.
func (s *shortage) refusal() (refused *Refused, look bool) {
	a := s.of
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	a.learnAll()
	need := s.draw.need(&s.use)
	kind := s.draw.pool.refusing(&need, &s.limit)
	if kind < 0 {
		return nil, false
	}
	i := s.draw.limits[kind]
	refused = a.refused(i, &s.use)
	if a.spend.Counts[i].Steps == s.steps[kind] {
		look = a.spend.Refused(i, &s.use)
	}
	return refused, look
}

// refusing is the first kind in which a call does not fit, or -1.
func (p *pool) refusing(need, limit *verdict.Counts) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.used()
	for kind, n := range need {
		if !verdict.Fits(n, limit[kind], used[kind]) {
			return kind
		}
	}
	return -1
}

// A taking is a slice that is being taken, again if the answer was lost before.
type taking struct {
	slice Slice
	again bool
	began time.Time
	done  chan struct{} // closed when the rest is there
	grant Grant
	err   error
}

// slice is one of what is missing. Of what is not, it takes nothing: others may need it.
func (p *pool) slice(least, limit *verdict.Counts, force bool) Slice {
	upTo := endless
	for kind, n := range least {
		if n > 0 {
			upTo[kind] = limit[kind]
		}
	}
	return p.newSlice(least, &upTo, force)
}

func (p *pool) newSlice(least, limit *verdict.Counts, force bool) Slice {
	return Slice{
		ID: record.EventID("", "", "", ""), Scope: p.scope, Period: p.period, Zone: p.zone, Currency: p.currency,
		Least: totalsOf(*least), Limit: totalsOf(*limit), Force: force,
	}
}

// take takes a slice and reports whether it fits. If one is being taken, it waits for that instead, and after a lost
// answer it asks for that one again; the caller looks again then.
func (p *pool) take(ctx context.Context, r *recorder, s Slice) (fits bool, err error) {
	t, mine, err := p.ask(ctx, r, &s)
	return err == nil && (!mine || t.again || t.grant.Fits), err
}

// ask is take for a slice, or nil for one of what is owed: then it returns nil if there is nothing to ask for. It waits
// no longer than ctx lasts: a store that does not heed that is not asked anything else until it answers. The error is
// that of the caller's own slice, or of ctx.
func (p *pool) ask(ctx context.Context, r *recorder, s *Slice) (t *taking, mine bool, err error) {
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("take a slice of %s: %w", p.scope, bounded.Cause(ctx))
	}
	switch t, mine = p.begin(r, s); {
	case t == nil:
		return nil, false, nil
	case mine && (r.inline || r.instantSpend(p.store)):
		p.carryOut(ctx, r, t)
	case mine:
		go p.carryOutAside(context.WithoutCancel(ctx), r, t)
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return t, mine, fmt.Errorf("wait for a slice of %s: %w", p.scope, bounded.Cause(ctx))
	}
	if mine {
		err = t.err
	}
	return t, mine, err
}

// begin makes the slice the one that is being taken, unless another one is. What is owed is read here, so that it is
// taken once, however many ask for it.
func (p *pool) begin(r *recorder, s *Slice) (t *taking, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	owed := p.owed()
	switch {
	case s == nil && owed == verdict.Counts{} && p.doubtful == nil:
		return nil, false
	case p.taking != nil:
		return p.taking, false
	}
	p.taking = &taking{began: clocks.Now(r.clock), done: make(chan struct{})}
	switch {
	case p.doubtful != nil:
		p.taking.slice, p.taking.again = *p.doubtful, true
	case s != nil:
		p.taking.slice = *s
	default:
		p.taking.slice = p.newSlice(&owed, &endless, true)
	}
	return p.taking, true
}

// carryOutAside is carryOut for whoever does not wait for a caller that gives up.
func (p *pool) carryOutAside(ctx context.Context, r *recorder, t *taking) {
	ctx, cancel := clocks.WithTimeout(ctx, r.clock, r.timeout)
	defer cancel()
	p.carryOut(ctx, r, t)
}

// carryOut asks the store. What it grants when nobody draws on the pool any more is given back.
func (p *pool) carryOut(ctx context.Context, r *recorder, t *taking) {
	defer p.giveBackLate(r)
	defer p.took(r, t) // also if the store ends this goroutine
	t.err = bounded.ErrExited
	grant, err := storeErr(bounded.Here(func() (Grant, error) { return p.store.Take(ctx, t.slice) }))
	t.grant, t.err = grant, err
}

// took notes what came of it.
func (p *pool) took(r *recorder, t *taking) {
	defer close(t.done)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taking, p.doubtful, p.failed = nil, nil, nil
	if t.err == nil {
		p.granted(r, t)
		return
	}
	if !errors.Is(t.err, ErrInvalid) {
		p.doubtful = &t.slice
	}
	t.err = fmt.Errorf("take a slice of %s: %w", p.scope, t.err)
	p.failed = t.err
}

// granted adds a slice, or notes that it does not fit. One of a window that is over is to be given back. The caller
// holds mu.
func (p *pool) granted(r *recorder, t *taking) {
	window, granted := newAllotment(r.clock, t.began, &t.grant), t.grant.Granted.counts()
	if t.grant.Ends == 0 || p.final != nil && p.final.window != window.window {
		window.add(t.slice.ID, &granted)
		p.old = append(p.old, window)
		p.passed(&t.grant)
		return
	}
	if p.turn(); p.current != nil && p.current.window != window.window {
		p.leave()
	}
	if p.charged = t.grant.Charged.counts(); p.current == nil {
		p.current = window
	}
	if !t.grant.Fits {
		return
	}
	p.current.add(t.slice.ID, &granted)
	p.current.left.Sub(&p.debt)
	p.debt = verdict.Counts{}
}
