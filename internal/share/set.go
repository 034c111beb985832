package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Set is the shared limits that one session draws on, in the order of its ledger. It does not change once it is in
// use, and is then safe for concurrent use.
//
// What a call used beyond its admission is owed until the store has taken it. While the session is open that is tried
// again by whoever calls Cover. After the end nobody does: who settles then, or closes again, waits for the store and
// hears of its error.
type Set struct {
	by     Carrier
	of     *ledger.Ledger
	guard  sync.Locker // of the ledger; it is locked before the limits are
	limits []*Limit
	locks  []*Limit // each of them once, in the order in which they are locked
}

// NewSet returns an empty set of a session with that ledger, which guard guards.
func NewSet(by Carrier, of *ledger.Ledger, guard sync.Locker) *Set {
	return &Set{by: by, of: of, guard: guard}
}

// Add has the session draw on a limit, for calls of the tool in the scope. The caller holds the guard.
func (s *Set) Add(l *Limit, scope, tool string) {
	s.limits = append(s.limits, l)
	s.locks = InOrder(s.limits)
	s.of.AddSource(&l.Held, scope, tool)
}

// Lock locks what is held of all limits. The caller holds the guard.
func (s *Set) Lock() {
	for _, l := range s.locks {
		l.Lock()
	}
}

// Unlock unlocks what Lock locked.
func (s *Set) Unlock() {
	for _, l := range s.locks {
		l.Unlock()
	}
}

// Begin takes the first slice of each limit, and so learns what others have used.
func (s *Set) Begin(ctx context.Context) error {
	ctx, cancel := s.by.Context(ctx)
	defer cancel()
	for i, l := range s.limits {
		s.guard.Lock()
		limit := s.of.Open(i)
		s.guard.Unlock()
		if err := l.Begin(ctx, &s.by, &limit); err != nil {
			return err
		}
	}
	return nil
}

// Take takes a slice of the limit with that number, see [Limit.Take].
func (s *Set) Take(ctx context.Context, number int, want *ledger.Slice) (fits bool, err error) {
	return s.limits[number].Take(ctx, &s.by, want)
}

// Cover has what runs used beyond what was taken of the limits taken, so that others find it used, see [Limit.Cover].
// It returns an error if the store did not take something.
func (s *Set) Cover(failed func()) (err error) {
	ctx, cancel := s.by.Context(context.Background())
	defer cancel()
	for i := 0; i < len(s.limits) && err == nil; i++ {
		err = s.limits[i].Cover(ctx, &s.by, failed)
	}
	return err
}

// Uncovered reports whether runs used something of the limits that the store has not taken.
func (s *Set) Uncovered() bool {
	return slices.ContainsFunc(s.limits, func(l *Limit) bool { return l.Owed() != verdict.Counts{} })
}

// owing are the limits of which calls of the session have used something that the store has not taken.
func (s *Set) owing() (all []*Limit) {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.Lock()
	defer s.Unlock()
	for i, l := range s.limits {
		if s.of.Owes(i) {
			all = append(all, l)
		}
	}
	return all
}

// Owes reports whether calls of the session have used something that the store has not taken.
func (s *Set) Owes() bool { return len(s.owing()) > 0 }

// Unpaid returns an error that says what that is, nil if there is nothing.
func (s *Set) Unpaid() (errs error) {
	for _, l := range s.owing() {
		errs = errors.Join(errs, l.Unpaid(nil))
	}
	return errs
}

// Settle takes what is owed of a session that was closed before. What the store does not take is what Unpaid returns.
func (s *Set) Settle() error {
	s.end(false, nil)
	return s.Unpaid()
}

// Close takes what is owed, and gives back what nobody draws on any more, in one timeout. It is called once. Failed
// hears of each limit of which something stays charged.
func (s *Set) Close(failed func(l *Limit, err error)) { s.end(true, failed) }

func (s *Set) end(leaves bool, failed func(l *Limit, err error)) {
	ctx, cancel := s.by.Context(context.Background())
	defer cancel()
	owing := s.owing()
	bounded.Each(s.limits, func(l *Limit) {
		switch {
		case leaves && l.Leave():
			if err := l.Close(ctx, &s.by); err != nil {
				failed(l, err)
			}
		case slices.Contains(owing, l):
			_ = l.Settle(ctx, &s.by) // Unpaid returns what is owed then
		}
	})
}

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
