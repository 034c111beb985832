package watchdog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A pool is what this process has taken of a limit that is kept in a store. The runs that share the limit share it.
type pool struct {
	store    SpendStore
	scope    string
	period   Period
	zone     string
	currency string

	mu       sync.Mutex
	current  *allotment
	taking   chan struct{} // closed when the slice that is being taken has its answer; nil if none is
	doubtful *Slice        // one whose answer was lost
	charged  verdict.Counts
	old      []*allotment // of windows that are over, to be given back
}

// An allotment is the slices of one window, drawn on together. The pool's mutex guards it.
type allotment struct {
	slices []heldSlice
	left   verdict.Counts // negative where more was used than was taken
	ends   time.Time      // zero for never
	closed bool           // what was left is given back
}

type heldSlice struct {
	id      string
	granted verdict.Counts
}

// A draw is how a session draws on a pool: for its limits of these kinds, by the indexes that they have, of one tool or
// of all.
type draw struct {
	pool   *pool
	tool   string
	limits [len(verdict.Counts{})]int // -1 for a kind without a limit
}

// A shortage is what a call lacks of a pool.
type shortage struct {
	of    *account
	draw  *draw
	least verdict.Counts
	limit verdict.Counts
	force bool
	use   verdict.Use
	// refusedBy is the index of the limit that the store found used up.
	refusedBy int
}

func (a *allotment) over(now time.Time) bool { return !a.ends.IsZero() && !now.Before(a.ends) }

// need is how much of a use the draw is for.
func (d *draw) need(use *verdict.Use) (need verdict.Counts) {
	if d.tool != "" && d.tool != use.Tool {
		return need
	}
	for kind, i := range d.limits {
		if i >= 0 {
			need[kind] = use.Counts[kind]
		}
	}
	return need
}

// lacks returns what the call lacks of the first pool that has too little. The caller holds mu of the book.
func (a *account) lacks(use *verdict.Use) *shortage {
	for _, d := range a.draws {
		least, short := d.pool.lacks(d.need(use), a.w)
		if !short {
			continue
		}
		s := &shortage{of: a, draw: d, least: least, force: a.spend.ObserveOnly, use: *use}
		for kind, i := range d.limits {
			if s.limit[kind] = verdict.Endless; i >= 0 {
				s.limit[kind] = a.spend.Open(i)
			}
		}
		return s
	}
	return nil
}

func (p *pool) lacks(need verdict.Counts, w *Watchdog) (least verdict.Counts, short bool) {
	if need == (verdict.Counts{}) {
		return least, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(w)
	for kind, n := range need {
		if n == 0 {
			continue
		}
		has := int64(0)
		if p.current != nil {
			has = p.current.left[kind]
		}
		if n > has {
			least[kind], short = n-has, true
		}
	}
	return least, short
}

// turn leaves a window that is over. The caller holds mu.
func (p *pool) turn(w *Watchdog) {
	if p.current != nil && !p.current.ends.IsZero() && p.current.over(clocks.Now(w.clock.other)) {
		p.old = append(p.old, p.current)
		p.current, p.charged = nil, verdict.Counts{}
	}
}

// draw draws a call that lacks nothing, and notes on what. The caller holds mu of the book.
func (a *account) draw(parts []*allotment, use *verdict.Use) []*allotment {
	for _, d := range a.draws {
		parts = append(parts, d.pool.draw(d.need(use)))
	}
	return parts
}

func (p *pool) draw(need verdict.Counts) *allotment {
	if need == (verdict.Counts{}) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current.left.Sub(&need)
	return p.current
}

// replace charges what was used in place of what was drawn. It reports whether a shared limit is exceeded, and returns
// the pools of which more was used than was taken. The caller holds mu of the book.
func (a *account) replace(one *charge, use *verdict.Use) (look bool, owing []*pool) {
	for i, d := range a.draws {
		if i >= len(one.parts) || one.parts[i] == nil {
			continue
		}
		before, after := d.need(&one.most), d.need(use)
		if d.pool.replace(one.parts[i], before, after) {
			owing = append(owing, d.pool)
		}
		look = a.exceeded(d) || look
	}
	return look, owing
}

// replace reports whether more was used than was taken.
func (p *pool) replace(from *allotment, before, after verdict.Counts) (owes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from.closed {
		return false // what was admitted stays charged
	}
	from.left.Add(&before)
	from.left.Sub(&after)
	for _, left := range from.left {
		owes = owes || left < 0
	}
	return owes
}

// exceeded notes the shared limits of which more was used than they allow.
func (a *account) exceeded(d *draw) (look bool) {
	used := d.pool.used()
	for kind, i := range d.limits {
		if i < 0 || a.spend.Limits[i].Scope == "" {
			continue
		}
		look = a.spend.Learn(i, used[kind]) || look
		if used[kind] > a.spend.Use(i).Allowed {
			look = a.spend.Exceeded(i) || look
		}
	}
	return look
}

// learnScopes brings what all have used of the shared limits into the decision. The caller holds mu of the book.
func (a *account) learnScopes() {
	for _, d := range a.draws {
		used := d.pool.used()
		for kind, i := range d.limits {
			if i >= 0 && a.spend.Limits[i].Scope != "" {
				a.spend.Learn(i, used[kind])
			}
		}
	}
}

// used is what the window is charged with, as of the last answer, without what is left here.
func (p *pool) used() (used verdict.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used = p.charged
	if p.current != nil {
		used.Sub(&p.current.left)
	}
	return used
}

// fetch takes a slice of what is missing, or waits for one that is being taken. The error is a [*Refused] if it does
// not fit.
func (s *shortage) fetch(ctx context.Context, r *recorder) error {
	p := s.draw.pool
	fits, err := p.take(ctx, r, s.least, s.limit, s.force)
	if err != nil {
		return err
	}
	_ = p.giveBackOld(ctx, r) // what is not given back stays charged in a window that is over
	if fits {
		return nil
	}
	return s.refusal()
}

// refusal says which limit the store found used up.
func (s *shortage) refusal() *Refused {
	b := s.of.book
	b.mu.Lock()
	defer b.mu.Unlock()
	s.of.learnOwn(s.draw)
	s.of.learnScopes()
	p := s.draw.pool
	p.mu.Lock()
	charged := p.charged
	p.mu.Unlock()
	for kind, i := range s.draw.limits {
		if i >= 0 && !verdict.Fits(s.least[kind], s.limit[kind], charged[kind]) {
			s.refusedBy = i
			break
		}
	}
	return s.of.refused(s.refusedBy, &s.use)
}

// take takes a slice and reports whether it fits. If one is being taken, it waits for that instead; the caller looks
// again then. So it does after a slice in doubt.
func (p *pool) take(ctx context.Context, r *recorder, least, limit verdict.Counts, force bool) (fits bool, err error) {
	s, wait := p.begin(least, limit, force)
	if wait != nil {
		select {
		case <-wait:
			return true, nil
		case <-ctx.Done():
			return false, fmt.Errorf("wait for a slice of %s: %w", p.scope, context.Cause(ctx))
		}
	}
	began, grant := clocks.Now(r.clock), Grant{}
	err = fmt.Errorf("take a slice of %s: %w", p.scope, bounded.ErrExited)
	defer func() { p.took(r, s, grant, began, err) }()
	if grant, err = p.ask(ctx, r, s.Slice); err != nil {
		err = fmt.Errorf("take a slice of %s: %w", p.scope, err)
	}
	return grant.Fits || s.again, err
}

// A taking is a slice that is being taken, again if the answer was lost before.
type taking struct {
	Slice
	again bool
}

// begin makes the slice to take, or returns what to wait for.
func (p *pool) begin(least, limit verdict.Counts, force bool) (s taking, wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taking != nil {
		return s, p.taking
	}
	p.taking = make(chan struct{})
	if p.doubtful != nil {
		return taking{*p.doubtful, true}, nil
	}
	return taking{Slice: Slice{
		ID: record.EventID("", "", "", ""), Scope: p.scope, Period: p.period, Zone: p.zone, Currency: p.currency,
		Least: totalsOf(least), Limit: totalsOf(limit), Force: force,
	}}, nil
}

// ask asks the store, for no longer than ctx lasts.
func (p *pool) ask(ctx context.Context, r *recorder, s Slice) (Grant, error) {
	take := func() (Grant, error) { return p.store.Take(ctx, s) }
	if r.inline || r.instantSpend(p.store) {
		return storeErr(bounded.Here(take))
	}
	grant, err := bounded.Do(ctx, take)
	if errors.Is(err, bounded.ErrLeftBehind) {
		return Grant{}, noAnswer(ctx, r.timeout)
	}
	return storeErr(grant, err)
}

// took adds what was granted.
func (p *pool) took(r *recorder, s taking, g Grant, began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.taking)
	p.taking = nil
	switch {
	case errors.Is(err, ErrInvalid):
		p.doubtful = nil
		return
	case err != nil:
		p.doubtful = &s.Slice
		return
	}
	p.doubtful, p.charged = nil, g.Charged.counts()
	if !g.Fits {
		return
	}
	ends := time.Time{}
	if g.Ends != NoLimit {
		ends = began.Add(g.Ends)
	}
	if p.current != nil && p.current.over(clocks.Now(r.clock)) {
		p.old = append(p.old, p.current)
		p.current = nil
	}
	if p.current == nil {
		p.current = &allotment{ends: ends}
	}
	granted := g.Granted.counts()
	p.current.slices = append(p.current.slices, heldSlice{s.ID, granted})
	p.current.left.Add(&granted)
}

// cover takes what was used beyond what was taken, so that others find it used.
func (p *pool) cover(r *recorder) {
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	for range maxCovers {
		p.mu.Lock()
		var least verdict.Counts
		owes := false
		if p.current != nil {
			for kind, left := range p.current.left {
				least[kind] = max(-left, 0)
				owes = owes || left < 0
			}
		}
		p.mu.Unlock()
		if !owes {
			return
		}
		if _, err := p.take(ctx, r, least, endless, true); err != nil {
			return // the next call that takes a slice, or the end, takes it
		}
	}
}

// maxCovers bounds how often a pool that goes on being overdrawn is covered by one goroutine.
const maxCovers = 8

var endless = func() (all verdict.Counts) {
	for i := range all {
		all[i] = verdict.Endless
	}
	return all
}()

// giveBackOld gives back what was left in windows that are over.
func (p *pool) giveBackOld(ctx context.Context, r *recorder) error {
	p.mu.Lock()
	old := p.old
	p.old = nil
	p.mu.Unlock()
	var errs error
	for _, a := range old {
		errs = errors.Join(errs, p.giveBack(ctx, r, a))
	}
	return errs
}

// giveBackAll gives back what is left, and takes what is owed.
func (p *pool) giveBackAll(r *recorder) error {
	p.cover(r)
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	p.mu.Lock()
	if p.current != nil {
		p.old, p.current = append(p.old, p.current), nil
	}
	p.mu.Unlock()
	return p.giveBackOld(ctx, r)
}

// giveBack returns what is left of an allotment, once.
func (p *pool) giveBack(ctx context.Context, r *recorder, a *allotment) (errs error) {
	p.mu.Lock()
	a.closed = true
	left := a.left
	p.mu.Unlock()
	for _, s := range a.slices {
		unused := s.granted
		for kind := range unused {
			unused[kind] = max(min(unused[kind], left[kind]), 0)
			left[kind] -= unused[kind]
		}
		if unused == (verdict.Counts{}) {
			continue
		}
		if err := p.giveBackSlice(ctx, r, s.id, unused); err != nil {
			errs = errors.Join(errs, fmt.Errorf("give back slice %s of %s: %w", s.id, p.scope, err))
		}
	}
	return errs
}

func (p *pool) giveBackSlice(ctx context.Context, r *recorder, id string, unused verdict.Counts) error {
	call := func() (nothing, error) { return nothing{}, p.store.Return(ctx, id, totalsOf(unused)) }
	if r.inline || r.instantSpend(p.store) {
		_, err := storeErr(bounded.Here(call))
		return err
	}
	_, err := storeErr(bounded.Do(ctx, call))
	return err
}

// instantSpend reports that the store answers at once.
func (r *recorder) instantSpend(store SpendStore) bool {
	_, memory := store.(*Memory)
	return memory
}
