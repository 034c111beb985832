package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// maxCovers bounds how often a pool that goes on being overdrawn is covered in one go.
const maxCovers = 8

// cover has what was used beyond what was taken of the run's pools taken, so that others find it used, without waiting
// for it if there is another goroutine. What the store does not take is tried again by a retrier and at the next poll.
func (w *Watchdog) cover() {
	if !w.covers() {
		return
	}
	for w.outer != nil {
		w = w.outer
	}
	a := w.account.Load()
	r := &w.recorder
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	for _, d := range a.draws {
		switch {
		case !d.pool.beginCover():
		case r.inline || r.instantSpend(d.pool.store):
			_ = d.pool.coverOnce(ctx, r)
		default:
			go d.pool.coverAside(r)
		}
	}
}

// covers reports whether the run has pools that can be owed to.
func (w *Watchdog) covers() bool {
	for w.outer != nil {
		w = w.outer
	}
	a := w.account.Load()
	return a != nil && len(a.draws) > 0
}

// beginCover reports whether something is owed that nobody takes.
func (p *pool) beginCover() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.covering || p.closed || p.owed() == (verdict.Counts{}) {
		return false
	}
	p.covering = true
	return true
}

func (p *pool) coverAside(r *recorder) {
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	if p.coverOnce(ctx, r) != nil {
		r.tryLater()
	}
}

// coverOnce covers what is owed, and ends what beginCover began.
func (p *pool) coverOnce(ctx context.Context, r *recorder) error {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.covering = false
	}()
	return p.settle(ctx, r)
}

// coverNow is cover for a retrier, which waits: it returns an error if the store did not take something.
func (w *Watchdog) coverNow() error {
	r := &w.recorder
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	for _, d := range w.ownDraws() {
		if d.pool.beginCover() {
			if err := d.pool.coverOnce(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// owesPools reports whether calls of the session used something that the store has not taken.
func (w *Watchdog) owesPools() bool {
	return slices.ContainsFunc(w.ownDraws(), func(d *draw) bool { return d.pool.owes() })
}

// ownDraws are those of a session; a layer has none.
func (w *Watchdog) ownDraws() []*draw {
	if a := w.account.Load(); a != nil {
		return a.draws
	}
	return nil
}

// settle takes what is owed, and asks again for a slice whose answer was lost. What the store does not take, the next
// call that takes a slice, the next poll or the end does. It returns an error if what was owed when it was called may
// not be charged.
func (p *pool) settle(ctx context.Context, r *recorder) error {
	for covered := 0; covered < maxCovers; {
		t, mine, err := p.ask(ctx, r, nil)
		switch {
		case err != nil:
			return p.unpaid(err)
		case t == nil:
			return nil
		case !mine || t.again: // it may be of less
		case !t.grant.Fits:
			return p.unpaid(errNotForced)
		default:
			covered++
		}
	}
	return nil
}

// closeSpend takes what is owed, gives back what is left of the run's slices, and admits nothing any more. It returns a
// channel that is closed when that is done, nil if there is nothing to do.
func (w *Watchdog) closeSpend() (done <-chan struct{}) {
	a := w.account.Load()
	if a == nil {
		return nil
	}
	a.book.mu.Lock()
	first := !a.closed
	a.closed = true
	toDo := first && len(a.draws) > 0 || a.owing()
	a.book.mu.Unlock()
	switch {
	case !toDo:
		return nil
	case w.recorder.inline:
		a.giveBack(first)
		return nil
	}
	return aside(func() { a.giveBack(first) })
}

// giveBack takes what is owed and, once, gives back what nobody draws on any more, in one record timeout.
func (a *account) giveBack(first bool) {
	w := a.w
	r := &w.recorder
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	each(a.draws, func(d *draw) {
		switch {
		case first && closePool(d.pool):
			if err := d.pool.giveBackAll(ctx, r); err != nil {
				callLog(func() {
					w.log().Error("what a run did not spend stays charged", "run", w.id, "scope", d.pool.scope, "error", err)
				})
			}
		case a.owes(d):
			_ = d.pool.settle(ctx, r) // Close returns what is owed then
		}
	})
}

// giveBackAll takes what is owed and gives back what is left.
func (p *pool) giveBackAll(ctx context.Context, r *recorder) error {
	_ = p.settle(ctx, r) // Close returns what is owed then
	p.mu.Lock()
	p.close()
	doubtful := p.doubtful
	if p.owed() != (verdict.Counts{}) {
		doubtful = nil // it is asked for again before what is owed
	}
	p.mu.Unlock()
	err := p.giveBackOld(ctx, r)
	if doubtful != nil {
		err = errors.Join(err, fmt.Errorf("slice %s of %s: the store has not said whether it was charged", doubtful.ID,
			p.scope))
	}
	return err
}

// close leaves the window for good, and keeps what is owed of it. The caller holds mu.
func (p *pool) close() {
	p.closed = true
	if p.current == nil {
		return
	}
	p.debt, p.final = p.owed(), cmp.Or(p.final, p.current)
	p.leave()
}

// giveBackLate gives back what the store granted after the end.
func (p *pool) giveBackLate(r *recorder) {
	p.mu.Lock()
	late := p.closed && p.taking == nil
	if late {
		p.close()
	}
	p.mu.Unlock()
	if !late {
		return
	}
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	_ = p.giveBackOld(ctx, r) // the log has told that it may stay charged
}

// hasOld reports whether a window is over whose rest was not given back.
func (p *pool) hasOld() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.old) > 0
}

// giveBackOverdue gives back what was left in windows that are over, without waiting for it if there is another
// goroutine. What is not given back stays charged in a window that is over.
func (p *pool) giveBackOverdue(ctx context.Context, r *recorder) {
	switch {
	case !p.hasOld():
	case r.inline || r.instantSpend(p.store):
		_ = p.giveBackOld(ctx, r)
	default:
		go func() {
			ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
			defer cancel()
			_ = p.giveBackOld(ctx, r)
		}()
	}
}

// giveBackOld gives back what was left in windows that are over, as long as ctx lasts.
func (p *pool) giveBackOld(ctx context.Context, r *recorder) (errs error) {
	for {
		if ctx.Err() != nil && p.hasOld() {
			return errors.Join(errs, fmt.Errorf("give back slices of %s: %w", p.scope, bounded.Cause(ctx)))
		}
		old := p.nextOld()
		if old == nil {
			return errs
		}
		errs = errors.Join(errs, p.giveBack(ctx, r, old))
	}
}

// nextOld is an allotment of a window that is over, nil if there is none.
func (p *pool) nextOld() *allotment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.old) == 0 {
		return nil
	}
	old := p.old[0]
	p.old = p.old[1:]
	return old
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
	if ctx.Err() != nil {
		return bounded.Cause(ctx)
	}
	call := func() (nothing, error) { return nothing{}, p.store.Return(ctx, id, totalsOf(unused)) }
	if r.inline || r.instantSpend(p.store) {
		_, err := storeErr(bounded.Here(call))
		return err
	}
	_, err := storeErr(bounded.Do(ctx, call))
	return err
}
