package watchdog

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/bounded"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/ledger"
)

// What a call used beyond its admission is owed until the store has taken it. While the run is open that is tried again
// at polls. After the end nobody polls: whoever settles, or closes again, waits for the store and hears of its error.

// closeSpend takes what is owed, gives back what is left of the run's slices, and admits nothing any more. It returns a
// channel that is closed when that is done, nil if there is nothing to do.
func (w *Watchdog) closeSpend() (done <-chan struct{}) {
	a := w.account.Load()
	if a == nil {
		return nil
	}
	a.in.lock()
	first := a.Close()
	toDo := w.outer == nil && (first && len(a.in.sources) > 0 || a.in.Owing())
	a.in.unlock()
	if w.outer != nil {
		a.run.Store(nil)
	}
	switch {
	case !toDo:
		return nil
	case w.recorder.inline:
		w.giveBack(a.in, first)
		return nil
	}
	return aside(func() { w.giveBack(a.in, first) })
}

// giveBack takes what is owed and, once, gives back what nobody draws on any more, in one record timeout.
func (w *Watchdog) giveBack(in *sessionLedger, first bool) {
	r := &w.recorder
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	each(in.indexes(), func(i int) {
		switch s := in.sources[i]; {
		case first && s.leave():
			if err := s.giveBackAll(ctx, r); err != nil {
				callLog(func() {
					w.log().Error("what a run did not spend stays charged", "run", w.id, "scope", s.scope, "error", err)
				})
			}
		case in.owes(i):
			_ = s.settle(ctx, r) // Close returns what is owed then
		}
	})
}

func (l *sessionLedger) indexes() (all []int) {
	for i := range l.sources {
		all = append(all, i)
	}
	return all
}

// owes reports whether calls of the session have used something of a source that the store has not taken.
func (l *sessionLedger) owes(source int) bool {
	l.lock()
	defer l.unlock()
	return l.Owes(source)
}

// settleLate takes what calls of the closed run used beyond their admissions, in one record timeout.
func (l *sessionLedger) settleLate() (errs error) {
	w := l.session.run.Load()
	r := &w.recorder
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	each(l.indexes(), func(i int) {
		if l.owes(i) {
			errs = errors.Join(errs, l.sources[i].settle(ctx, r))
		}
	})
	if errs != nil {
		return fmt.Errorf("settle a call of run %s, which is closed: %w; call Settle again", w.id, errs)
	}
	return nil
}

// unpaid returns an error that says what the run has used and the store has not taken, nil if there is nothing.
func (w *Watchdog) unpaid() (errs error) {
	for i, s := range w.ownSources() {
		if w.account.Load().in.owes(i) {
			errs = errors.Join(errs, s.unpaid(nil))
		}
	}
	return errs
}

// giveBackAll takes what is owed and gives back what is left.
func (s *sharedLimit) giveBackAll(ctx context.Context, r *recorder) error {
	_ = s.settle(ctx, r) // Close returns what is owed then
	s.mu.Lock()
	doubtful := s.Close()
	s.mu.Unlock()
	err := s.giveBackOld(ctx, r)
	if doubtful != nil {
		err = errors.Join(err, fmt.Errorf("slice %s of %s: the store has not said whether it was charged", doubtful.ID,
			s.scope))
	}
	return err
}

// giveBackLate gives back what the store granted after the end.
func (s *sharedLimit) giveBackLate(r *recorder) {
	s.mu.Lock()
	late := s.CloseAgain()
	s.mu.Unlock()
	if !late {
		return
	}
	ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
	defer cancel()
	_ = s.giveBackOld(ctx, r) // the log has told that it may stay charged
}

// giveBackOverdue gives back what was left in windows that are over, without waiting for it if there is another
// goroutine. What is not given back stays charged in a window that is over.
func (s *sharedLimit) giveBackOverdue(ctx context.Context, r *recorder) {
	switch {
	case !s.hasReturns():
	case r.inline || r.instantSpend(s.store):
		_ = s.giveBackOld(ctx, r)
	default:
		go func() {
			ctx, cancel := clocks.WithTimeout(context.Background(), r.clock, r.timeout)
			defer cancel()
			_ = s.giveBackOld(ctx, r)
		}()
	}
}

func (s *sharedLimit) hasReturns() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.HasReturns()
}

// giveBackOld gives back what was left in windows that are over, as long as ctx lasts.
func (s *sharedLimit) giveBackOld(ctx context.Context, r *recorder) (errs error) {
	for {
		if ctx.Err() != nil && s.hasReturns() {
			return errors.Join(errs, fmt.Errorf("give back slices of %s: %w", s.scope, bounded.Cause(ctx)))
		}
		s.mu.Lock()
		returns, more := s.Returns()
		s.mu.Unlock()
		if !more {
			return errs
		}
		for _, one := range returns {
			if err := s.giveBack(ctx, r, one); err != nil {
				errs = errors.Join(errs, fmt.Errorf("give back slice %s of %s: %w", one.ID, s.scope, err))
			}
		}
	}
}

func (s *sharedLimit) giveBack(ctx context.Context, r *recorder, one ledger.Return) error {
	if ctx.Err() != nil {
		return bounded.Cause(ctx)
	}
	call := func() (nothing, error) { return nothing{}, s.store.Return(ctx, one.ID, totalsOf(one.Unused)) }
	if r.inline || r.instantSpend(s.store) {
		_, err := storeErr(bounded.Here(call))
		return err
	}
	_, err := storeErr(bounded.Do(ctx, call))
	return err
}
