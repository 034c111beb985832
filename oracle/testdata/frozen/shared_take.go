package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/bounded"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/ledger"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// maxCovers bounds how often a shared limit that goes on being overdrawn is covered in one go.
const maxCovers = 8

// errNotForced is the error of a store that does not charge what it has to.
var errNotForced = errors.New("the spend store did not charge a slice by force")

// A taking is a slice that the store is asked for. The rest is there once done is closed.
type taking struct {
	*ledger.Take
	done chan struct{}
	fits bool
	err  error
}

// take takes a slice and reports whether it fits. If one is being taken, it waits for that instead, and after a lost
// answer it asks for that one again; the caller looks again then.
func (s *sharedLimit) take(ctx context.Context, r *recorder, want *ledger.Slice) (fits bool, err error) {
	t, mine, err := s.ask(ctx, r, want)
	return err == nil && (!mine || t.Again || t.fits), err
}

// ask is take for a slice, or nil for one of what is owed: then it returns nil if there is nothing to ask for. It waits
// no longer than ctx lasts: a store that does not heed that is not asked anything else until it answers. The error is
// that of the caller's own slice, or of ctx.
func (s *sharedLimit) ask(ctx context.Context, r *recorder, want *ledger.Slice) (t *taking, mine bool, err error) {
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("take a slice of %s: %w", s.scope, bounded.Cause(ctx))
	}
	switch t, mine = s.beginTaking(r, want); {
	case t == nil:
		return nil, false, nil
	case mine && (r.inline || r.instantSpend(s.store)):
		s.carryOut(ctx, r, t)
	case mine:
		go s.carryOutAside(context.WithoutCancel(ctx), r, t)
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return t, mine, fmt.Errorf("wait for a slice of %s: %w", s.scope, bounded.Cause(ctx))
	}
	if mine {
		err = t.err
	}
	return t, mine, err
}

// beginTaking makes the slice the one that is being taken, unless another one is. Its windows are timed from here on,
// by the clock of whoever asks first.
func (s *sharedLimit) beginTaking(r *recorder, want *ledger.Slice) (t *taking, mine bool) {
	s.lock()
	defer s.mu.Unlock()
	if s.taking == nil && !s.Timed() {
		s.clock = newRunClock(r.clock, clocks.Now(r.clock), 0)
	}
	take, begun := s.Begin(s.clock.elapsed(), record.EventID("", "", "", ""), want)
	switch {
	case take == nil:
		return nil, false
	case begun:
		s.taking = &taking{Take: take, done: make(chan struct{})}
	}
	return s.taking, begun
}

// carryOutAside is carryOut for whoever does not wait for a caller that gives up.
func (s *sharedLimit) carryOutAside(ctx context.Context, r *recorder, t *taking) {
	ctx, cancel := clocks.WithTimeout(ctx, r.clock, r.timeout)
	defer cancel()
	s.carryOut(ctx, r, t)
}

// carryOut asks the store. What it grants when nobody draws on the limit any more is given back.
func (s *sharedLimit) carryOut(ctx context.Context, r *recorder, t *taking) {
	defer s.giveBackLate(r)
	defer func() { // differs: what is left of windows before is given back with each slice, whoever takes it
		if t.err == nil {
			s.giveBackOverdue(ctx, r)
		}
	}()
	var grant Grant
	t.err = bounded.ErrExited
	defer func() { s.took(t, &grant) }() // also if the store ends this goroutine
	grant, t.err = storeErr(bounded.Here(func() (Grant, error) { return s.store.Take(ctx, s.slice(t.Take)) }))
}

func (s *sharedLimit) slice(t *ledger.Take) Slice {
	return Slice{
		ID: t.ID, Scope: s.scope, Period: s.period, Zone: s.zone, Currency: s.currency,
		Least: totalsOf(t.Least), Limit: totalsOf(t.Limit), Force: t.Force,
	}
}

// took notes what came of it.
func (s *sharedLimit) took(t *taking, g *Grant) {
	defer close(t.done)
	s.lock()
	defer s.mu.Unlock()
	s.taking, s.failed, t.fits = nil, nil, g.Fits
	if t.err == nil {
		s.Granted(&ledger.Grant{
			Fits: g.Fits, Granted: g.Granted.counts(), Charged: g.Charged.counts(), Window: g.Window, Ends: g.Ends,
		})
		return
	}
	s.NotGranted(!errors.Is(t.err, ErrInvalid))
	t.err = fmt.Errorf("take a slice of %s: %w", s.scope, t.err)
	s.failed = t.err
}

// settle takes what is owed, and asks again for a slice whose answer was lost. What the store does not take, the next
// call that takes a slice, the next poll or the end does. It returns an error if what was owed when it was called may
// not be charged.
func (s *sharedLimit) settle(ctx context.Context, r *recorder) error {
	for covered := 0; covered < maxCovers; {
		t, mine, err := s.ask(ctx, r, nil)
		switch {
		case err != nil:
			return s.unpaid(err)
		case t == nil:
			return nil
		case !mine || t.Again: // it may be of less
		case !t.fits:
			return s.unpaid(errNotForced)
		default:
			covered++
		}
	}
	return nil
}

// unpaid returns an error that says what is owed and why, nil if nothing is. Without a reason it is the last one.
func (s *sharedLimit) unpaid(why error) error {
	s.lock()
	defer s.mu.Unlock()
	owed := s.Owed()
	if owed == (verdict.Counts{}) {
		return nil
	}
	if s.failed = cmp.Or(why, s.failed); s.failed == nil {
		s.failed = fmt.Errorf("wait for a slice of %s: %w", s.scope, context.DeadlineExceeded)
	}
	return fmt.Errorf("not charged with %s that were used: %w", s.amounts(&owed), s.failed)
}

// cover has what was used beyond what was taken of the session's shared limits taken, so that others find it used,
// without waiting for it if there is another goroutine. What the store does not take is tried again by a retrier and at
// the next poll.
func (w *Watchdog) cover() {
	if !w.covers() {
		return
	}
	w = w.session()
	r := &w.recorder
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	for _, s := range w.ownSources() {
		switch {
		case !s.beginCover():
		case r.inline || r.instantSpend(s.store):
			_ = s.coverOnce(ctx, r)
		default:
			go s.coverAside(r)
		}
	}
}

// covers reports whether the session has shared limits that can be owed to.
func (w *Watchdog) covers() bool { return len(w.session().ownSources()) > 0 }

func (s *sharedLimit) beginCover() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.BeginCover()
}

func (s *sharedLimit) coverAside(r *recorder) {
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	if s.coverOnce(ctx, r) != nil {
		r.tryLater()
	}
}

// coverOnce covers what is owed, and ends what beginCover began.
func (s *sharedLimit) coverOnce(ctx context.Context, r *recorder) error {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.EndCover()
	}()
	return s.settle(ctx, r)
}

// coverNow is cover for a retrier, which waits: it returns an error if the store did not take something.
func (w *Watchdog) coverNow() error {
	r := &w.recorder
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	for _, s := range w.ownSources() {
		if s.beginCover() {
			if err := s.coverOnce(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// owesShared reports whether calls used something of the session's shared limits that the store has not taken.
func (w *Watchdog) owesShared() bool {
	for _, s := range w.ownSources() {
		s.lock()
		owes := s.Owed() != verdict.Counts{}
		s.mu.Unlock()
		if owes {
			return true
		}
	}
	return false
}

// ownSources are those of a session; a layer has none.
func (w *Watchdog) ownSources() []*sharedLimit {
	if a := w.account.Load(); a != nil && w.outer == nil {
		return a.in.sources
	}
	return nil
}
