package watchdog

import (
	"cmp"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

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
	windows  int            // how many have ended
	taking   *taking        // the slice that is being taken; nil if none is
	doubtful *Slice         // one whose answer was lost
	charged  verdict.Counts // what the window is charged with, as of the last answer
	debt     verdict.Counts // what was used while there was no allotment
	old      []*allotment   // of windows that are over, to be given back
	covering bool           // a goroutine takes what is owed
	closed   bool           // nobody draws on it any more
	failed   error          // why the last try to take what is owed failed
	final    *allotment     // the last one, once closed: the debt is of its window then
}

// An allotment is the slices of one window, drawn on together. The pool's mutex guards it.
type allotment struct {
	window string
	slices []heldSlice    // the last ones
	taken  verdict.Counts // what all of them were granted
	left   verdict.Counts // negative where more was used than was taken
	clock  runClock       // since before the window's first answer
	lasts  time.Duration  // NoLimit for ever
	closed bool           // what was left is given back
}

type heldSlice struct {
	id      string
	granted verdict.Counts
}

// maxSlices is how many slices of an allotment can be given back. A new one is taken when the others are used up.
const maxSlices = 1024

// newAllotment is that of the window of a grant, which was asked for at an instant.
func newAllotment(c clock.Clock, began time.Time, g *Grant) *allotment {
	return &allotment{window: g.Window, clock: newRunClock(c, began, 0), lasts: g.Ends}
}

// remaining is how much longer the window lasts, by a clock that only goes forward.
func (a *allotment) remaining() time.Duration {
	if a.lasts == NoLimit {
		return NoLimit
	}
	return a.lasts - a.clock.elapsed()
}

// isOver reports whether there is a window, and it is over.
func (a *allotment) isOver() bool { return a != nil && a.lasts != NoLimit && a.remaining() <= 0 }

// add adds a slice.
func (a *allotment) add(id string, granted *verdict.Counts) {
	if len(a.slices) == maxSlices {
		a.slices = append(a.slices[:0], a.slices[1:]...)
	}
	a.slices = append(a.slices, heldSlice{id, *granted})
	a.taken.Add(granted)
	a.left.Add(granted)
}

// A draw is how a session draws on a pool: for its limits of these kinds, by the indexes that they have, of one tool or
// of all.
type draw struct {
	pool    *pool
	tool    string
	limits  [len(verdict.Counts{})]int // -1 for a kind without a limit
	windows int                        // of the pool, that were seen to end
	owes    bool                       // a call of the session used more than was taken; the book's mutex guards it
}

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

// open is up to where the draw's limits admit calls.
func (a *account) open(d *draw) (limit verdict.Counts) {
	limit = endless
	for kind, i := range d.limits {
		if i >= 0 {
			limit[kind] = a.spend.Open(i)
		}
	}
	return limit
}

// draw draws a call on every pool, and notes in parts on what, or on none: then it returns what is missing. It goes by
// the limits as they were when the call began, and draws what is not there if the call owes it. The caller holds mu of
// the book.
func (a *account) draw(parts []*allotment, use *verdict.Use, how *admission) (drawn []*allotment, s *shortage) {
	for _, d := range a.draws {
		need := d.need(use)
		if need == (verdict.Counts{}) {
			parts = append(parts, nil)
			continue
		}
		limit := how.limit(a, d)
		part, least, short := d.pool.draw(&need, &limit, how.owes, a.spend.ObserveOnly)
		if short {
			a.undo(parts, use)
			return parts[:0], a.shortage(d, use, &least, &limit, how)
		}
		d.owes = d.owes || how.owes
		parts = append(parts, part)
	}
	return parts, nil
}

// undo takes back what was drawn. The caller holds mu of the book.
func (a *account) undo(parts []*allotment, use *verdict.Use) {
	for i, part := range parts {
		if need := a.draws[i].need(use); need != (verdict.Counts{}) {
			a.draws[i].pool.replace(part, &need, &verdict.Counts{})
		}
	}
}

// draw draws a call, and returns on what: nil for what is owed without an allotment. If there is too little, or the
// limit may be used up, it draws nothing and returns what to ask the store for.
func (p *pool) draw(need, limit *verdict.Counts, owes, observed bool) (a *allotment, least verdict.Counts, short bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	if owes {
		p.charge(p.current, need)
		return p.current, least, false
	}
	used, left := p.used(), p.left()
	for kind, n := range need {
		switch {
		case n == 0:
		case n > left[kind]:
			least[kind], short = verdict.AddCount(n, -left[kind]), true
		case !observed && !verdict.Fits(n, limit[kind], used[kind]): // what others hold may have been given back since
			least[kind], short = n, true
		}
	}
	if short {
		return nil, least, true
	}
	p.charge(p.current, need)
	return p.current, least, false
}

// turn leaves a window that is over. What is owed of it after the end is charged nowhere. The caller holds mu.
func (p *pool) turn() {
	if p.current.isOver() {
		p.leave()
	}
	if p.final.isOver() {
		p.debt = verdict.Counts{}
	}
}

// leave leaves the current window. The caller holds mu.
func (p *pool) leave() {
	p.old = append(p.old, p.current)
	p.current, p.charged = nil, verdict.Counts{}
	p.windows++
}

// charge draws on an allotment, and where there is none makes it a debt. The caller holds mu.
func (p *pool) charge(a *allotment, n *verdict.Counts) {
	if a == nil {
		p.debt.Add(n)
		return
	}
	a.left.Sub(n)
}

// left is what can be drawn, negative where something is owed. The caller holds mu.
func (p *pool) left() (left verdict.Counts) {
	if p.current != nil {
		left = p.current.left
	}
	left.Sub(&p.debt)
	return left
}

// used is what the window is charged with, without what is left here. The caller holds mu.
func (p *pool) used() verdict.Counts {
	used, left := p.charged, p.left()
	used.Sub(&left)
	return used
}

// replace charges what was used in place of what was drawn. What was given back with the rest stays charged with what
// was drawn. It reports whether more was used than was taken, and whether by this call.
func (p *pool) replace(from *allotment, before, after *verdict.Counts) (owes, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from == nil {
		from = cmp.Or(p.current, p.final)
	}
	owed := p.owed()
	switch {
	case from != nil && from.closed:
		p.chargeLate(from, before, after)
	case from == nil:
		p.debt.Sub(before)
		p.debt.Add(after)
	default:
		from.left.Add(before)
		from.left.Sub(after)
	}
	for kind, n := range p.owed() {
		owes, more = owes || n > 0, more || n > owed[kind]
	}
	return owes, more
}

// owed is what was used beyond what was taken. The caller holds mu.
func (p *pool) owed() (owed verdict.Counts) {
	for kind, left := range p.left() {
		owed[kind] = max(-left, 0)
	}
	return owed
}

// replace charges what was used in place of what was drawn. It notes whether a shared limit is exceeded, and whether
// more was used than was taken. The caller holds mu of the book.
func (a *account) replace(one *charge, use *verdict.Use, did *deed) {
	for i, d := range a.draws {
		before, after := d.need(&one.most), d.need(use)
		if before == (verdict.Counts{}) && after == (verdict.Counts{}) {
			continue
		}
		owes, more := d.pool.replace(one.parts[i], &before, &after)
		d.owes = d.owes || more
		did.owes, did.late = did.owes || owes, did.late || more && a.closed
		did.look = a.learn(d) || did.look
		did.look = a.exceeded(d) || did.look
	}
}

// exceeded notes the shared limits of which more was used than they allow.
func (a *account) exceeded(d *draw) (look bool) {
	for _, i := range d.limits {
		if i < 0 || a.spend.Limits[i].Scope == "" {
			continue
		}
		if u := a.spend.Use(i); u.Used > u.Allowed {
			look = a.spend.Exceeded(i) || look
		}
	}
	return look
}

// learnAll brings what all have used of the limits that are kept into the decision. The caller holds mu of the book.
func (a *account) learnAll() {
	for _, d := range a.draws {
		a.learn(d)
	}
}

// learn brings what all have used of the draw's limits into the decision: of a shared limit everything, of one of the
// session's own what others have. It reports whether the run has to be looked at. The caller holds mu of the book.
func (a *account) learn(d *draw) (look bool) {
	p := d.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.turn()
	all, others := p.used(), p.charged
	if p.current != nil {
		others.Sub(&p.current.taken)
	}
	for kind, i := range d.limits {
		switch {
		case i < 0:
		case a.spend.Limits[i].Scope == "":
			look = a.spend.Learn(i, others[kind]) || look
		default:
			if d.windows != p.windows {
				a.spend.Renew(i)
			}
			look = a.spend.Learn(i, all[kind]) || look
		}
	}
	d.windows = p.windows
	return look
}

var endless = func() (all verdict.Counts) {
	for i := range all {
		all[i] = verdict.Endless
	}
	return all
}()

// instantSpend reports that the store answers at once.
func (r *recorder) instantSpend(store SpendStore) bool {
	_, memory := store.(*Memory)
	return memory
}
