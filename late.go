package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// What a call used beyond its admission is owed until the store has taken it. While the run is open that is tried again
// at polls. After the end nobody polls: whoever settles, or closes again, waits for the store and hears of its error.

// errNotForced is the error of a store that does not charge what it has to.
var errNotForced = errors.New("the spend store did not charge a slice by force")

// settleLate takes what calls of the closed run used beyond their admissions, in one record timeout.
func (b *book) settleLate() (errs error) {
	a := b.session
	r := &a.w.recorder
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	each(a.draws, func(d *draw) {
		if a.owes(d) {
			errs = errors.Join(errs, d.pool.settle(ctx, r))
		}
	})
	if errs != nil {
		return fmt.Errorf("settle a call of run %s, which is closed: %w; call Settle again", a.w.id, errs)
	}
	return nil
}

// unpaid returns an error that says what the run has used and the store has not taken, nil if there is nothing.
func (w *Watchdog) unpaid() (errs error) {
	a := w.account.Load()
	if a == nil {
		return nil
	}
	for _, d := range a.draws {
		if a.owes(d) {
			errs = errors.Join(errs, d.pool.unpaid(nil))
		}
	}
	return errs
}

// owing reports whether calls of the session have used something that the store has not taken. The caller holds mu of
// the book.
func (a *account) owing() bool {
	for _, d := range a.draws {
		if d.owing() {
			return true
		}
	}
	return false
}

// owes is owing for one of the draws and a caller without the mutex.
func (a *account) owes(d *draw) bool {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	return d.owing()
}

func (d *draw) owing() bool {
	d.owes = d.owes && d.pool.owes()
	return d.owes
}

func (p *pool) owes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	return p.owed() != verdict.Counts{}
}

// unpaid returns an error that says what is owed and why, nil if nothing is. Without a reason it is the last one.
func (p *pool) unpaid(why error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	owed := p.owed()
	if owed == (verdict.Counts{}) {
		return nil
	}
	if p.failed = cmp.Or(why, p.failed); p.failed == nil {
		p.failed = fmt.Errorf("wait for a slice of %s: %w", p.scope, context.DeadlineExceeded)
	}
	return fmt.Errorf("not charged with %s that were used: %w", p.amounts(&owed), p.failed)
}

// amounts are the counts that are not zero, as people read them.
func (p *pool) amounts(c *verdict.Counts) string {
	var parts []string
	for kind, n := range c {
		switch {
		case n == 0:
		case verdict.Kind(kind) == verdict.KindCost:
			parts = append(parts, Usage{Currency: p.currency}.amount(n))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(verdict.Kind(kind).String(), "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}

// chargeLate charges what was used beyond what was drawn on an allotment whose rest was given back, unless its window
// was over before the end. The caller holds mu.
func (p *pool) chargeLate(from *allotment, before, after *verdict.Counts) {
	if from != p.final {
		return
	}
	for kind, n := range after {
		p.debt[kind] = verdict.AddCount(p.debt[kind], max(n-before[kind], 0))
	}
}

// passed forgets what is owed after the end if the store's clock says that its window is over. The caller holds mu.
func (p *pool) passed(g *Grant) {
	if p.final != nil && (g.Ends == 0) == (g.Window == p.final.window) {
		p.debt = verdict.Counts{}
	}
}
