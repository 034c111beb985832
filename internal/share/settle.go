package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// maxCovers bounds how often a limit that goes on being overdrawn is covered in one go.
const maxCovers = 8

// errNotForced is the error of a store that does not charge what it has to.
var errNotForced = errors.New("the spend store did not charge a slice by force")

// Settle takes what is owed, and asks again for a slice whose answer was lost. What the store does not take, the next
// call that takes a slice or settles does. It returns an error if what was owed when it was called may not be charged.
func (l *Limit) Settle(ctx context.Context, c *Carrier) error {
	for covered := 0; covered < maxCovers; {
		t, mine, err := l.ask(ctx, c, nil)
		switch {
		case err != nil:
			return l.Unpaid(err)
		case t == nil:
			return nil
		case !mine || t.Again: // it may be of less
		case !t.fits:
			return l.Unpaid(errNotForced)
		default:
			covered++
		}
	}
	return nil
}

// Unpaid returns an error that says what is owed and why, nil if nothing is. Without a reason it is the last one.
func (l *Limit) Unpaid(why error) error {
	l.Lock()
	defer l.Unlock()
	owed := l.Held.Owed()
	if owed == (verdict.Counts{}) {
		return nil
	}
	if l.failed = cmp.Or(why, l.failed); l.failed == nil {
		l.failed = fmt.Errorf("wait for a slice of %s: %w", l.store, context.DeadlineExceeded)
	}
	return fmt.Errorf("not charged with %s that were used: %w", l.store.Amounts(&owed), l.failed)
}

// Cover settles while runs draw on the limit, so that others find what was used, unless somebody does already. It does
// not wait for that if there is another goroutine and a function to call when it failed.
func (l *Limit) Cover(ctx context.Context, c *Carrier, failed func()) error {
	l.mu.Lock()
	begun := l.Held.BeginCover()
	l.mu.Unlock()
	switch {
	case !begun:
		return nil
	case failed == nil:
		return l.cover(ctx, c)
	}
	l.aside(ctx, c, func(ctx context.Context) {
		if l.cover(ctx, c) != nil {
			failed()
		}
	})
	return nil
}

func (l *Limit) cover(ctx context.Context, c *Carrier) error {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.Held.EndCover()
	}()
	return l.Settle(ctx, c)
}

// Close takes what is owed, which can be settled later, and gives back what is left.
func (l *Limit) Close(ctx context.Context, c *Carrier) error {
	_ = l.Settle(ctx, c) // Unpaid says so
	l.mu.Lock()
	doubtful := l.Held.Close()
	all := l.returns()
	l.mu.Unlock()
	err := l.giveBack(ctx, c, all)
	if doubtful != nil {
		err = errors.Join(err, fmt.Errorf("slice %s of %s: the store has not said whether it was charged", doubtful.ID,
			l.store))
	}
	return err
}

// returns are what is to be given back now. The caller holds the lock.
func (l *Limit) returns() []ledger.Return {
	all := append(l.rest, l.Held.Returns()...)
	l.rest = nil
	return all
}

// giveBack gives back slices, as long as ctx lasts.
func (l *Limit) giveBack(ctx context.Context, c *Carrier, all []ledger.Return) (errs error) {
	for i, one := range all {
		if ctx.Err() != nil {
			l.keep(all[i:])
			return errors.Join(errs, fmt.Errorf("give back slices of %s: %w", l.store, bounded.Cause(ctx)))
		}
		if err := l.giveBackOne(ctx, c, one); err != nil {
			errs = errors.Join(errs, fmt.Errorf("give back slice %s of %s: %w", one.ID, l.store, err))
		}
	}
	return errs
}

// keep has the next one who carries give them back.
func (l *Limit) keep(rest []ledger.Return) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, rest...)
}

func (l *Limit) giveBackOne(ctx context.Context, c *Carrier, one ledger.Return) error {
	if l.here(c) {
		return l.store.Return(ctx, one)
	}
	_, err := bounded.Do(ctx, func() (none struct{}, err error) { return none, l.store.Return(ctx, one) })
	return err
}
