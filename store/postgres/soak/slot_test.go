//go:build linux

package soak_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A pattern is how a run behaves.
type pattern string

const (
	busy      pattern = "busy"       // it is signalled all the time
	seldom    pattern = "seldom"     // it is signalled a few times in a threshold
	silent    pattern = "silent"     // it is never signalled
	once      pattern = "once"       // it is signalled once, and then swept
	holds     pattern = "holds"      // it is in a hold for longer than the threshold, again and again
	completes pattern = "completes"  // it completes, and is resumed
	closes    pattern = "closes"     // its watchdog is closed, and another attaches
	wallClock pattern = "wall clock" // its own wall clock stops it, and it is resumed
)

var patterns = []pattern{busy, seldom, silent, once, holds, completes, closes, wallClock}

// A slot is a run that is begun again whenever it has ended.
type slot struct {
	host    *host
	id      string
	index   int // of the host's runs
	pattern pattern
	random  *rand.Rand
	resume  bool // its window has ended
}

// between draws a length of time.
func (s *slot) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

func (s *slot) live(ctx context.Context) {
	pause(ctx, s.between(0, promise))
	for s.goesOn(ctx) {
		if w := s.begin(ctx); w != nil {
			s.guard(ctx, w)
		}
		pause(ctx, s.between(promise/10, promise))
	}
}

func (s *slot) goesOn(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.host.finish:
		return false
	default:
		return true
	}
}

// begin attaches to the run, or resumes it if it has ended. It returns nil after an error.
func (s *slot) begin(ctx context.Context) *watchdog.Watchdog {
	select {
	case s.host.turns <- struct{}{}:
		defer func() { <-s.host.turns }()
	case <-ctx.Done():
		return nil
	}
	start := watchdog.New
	if s.resume {
		start = watchdog.Resume
	}
	// Not ctx: a host that leaves closes its runs.
	w, err := start(context.WithoutCancel(ctx), watchdog.Run{ID: s.id, StartedAt: s.host.job.StartedAt}, s.config())
	if err != nil {
		s.resume = s.resume || errors.Is(err, watchdog.ErrComplete)
		return nil
	}
	s.host.book.write(entry{
		What: attached, Run: s.id, Window: w.StartedAt(), Attempt: w.Attempt().Number, Cohort: s.cohortName(),
	})
	return w
}

func (s *slot) config() watchdog.Config {
	cfg := watchdog.Config{
		Store: s.host.store, Keeper: s.host.keeper, RecordTimeout: recordTimeout, Logger: logger(),
		Budget: watchdog.Budget{WarnAt: []float64{}},
	}
	if s.pattern == wallClock {
		cfg.Budget.WallClock = s.between(promise, 3*promise)
	}
	return cfg
}

// cohort returns the cohort of the run, nil if it is in none.
func (s *slot) cohort() *cohort {
	switch s.pattern {
	case silent, once, holds:
		return nil
	case seldom:
		return s.host.seldoms[s.index%len(s.host.seldoms)]
	default:
		return s.host.busy
	}
}

func (s *slot) cohortName() string {
	if c := s.cohort(); c != nil {
		return c.name
	}
	return ""
}

// guard lets the run live by its pattern until it has ended, or the host leaves.
func (s *slot) guard(ctx context.Context, w *watchdog.Watchdog) {
	if c := s.cohort(); c != nil {
		c.add(w)
		defer c.remove(w)
	}
	living, stop := context.WithCancel(ctx)
	defer stop()
	written := make(chan struct{})
	context.AfterFunc(w.Context(), func() {
		defer close(written)
		s.writeEnd(w)
		stop()
	})
	s.act(living, w)
	s.close(ctx, w)
	<-written
	cause := context.Cause(w.Context())
	s.resume = !errors.Is(cause, watchdog.ErrClosed)
}

// act does what the run's pattern says until the context ends, with the run or as the host leaves, or the run is to be
// closed.
func (s *slot) act(ctx context.Context, w *watchdog.Watchdog) {
	switch s.pattern {
	case once:
		pause(ctx, s.between(0, promise))
		s.host.book.write(entry{What: signalled, Run: s.id})
		w.Activity()
	case holds:
		s.holdOften(ctx, w)
	case completes:
		s.pauseUntilFinish(ctx)
		s.complete(ctx, w)
	case closes:
		s.pauseUntilFinish(ctx)
		return
	}
	<-ctx.Done()
}

func (s *slot) pauseUntilFinish(ctx context.Context) {
	timer := time.NewTimer(s.between(promise, 5*promise))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.host.finish:
	case <-ctx.Done():
	}
}

func (s *slot) holdOften(ctx context.Context, w *watchdog.Watchdog) {
	for ctx.Err() == nil {
		s.host.book.write(entry{What: held, Run: s.id})
		h, err := w.Hold(ctx, "call", watchdog.HoldLimit{})
		if err != nil {
			return // it has ended
		}
		pause(ctx, s.between(threshold/2, 2*threshold))
		s.host.book.write(entry{What: released, Run: s.id})
		h.Close()
		w.Activity()
		pause(ctx, s.between(promise/10, promise))
	}
}

// complete completes the run, however often the store fails.
func (s *slot) complete(ctx context.Context, w *watchdog.Watchdog) {
	for ctx.Err() == nil {
		err := w.Complete()
		switch {
		case err == nil:
			s.host.book.write(entry{What: completed, Run: s.id})
			return
		case errors.Is(err, watchdog.ErrEnded):
			return
		}
		pause(ctx, promise/4)
	}
}

// close closes the watchdog. A cancel that could not be recorded is tried again, unless the host leaves.
func (s *slot) close(ctx context.Context, w *watchdog.Watchdog) {
	for w.Close() != nil {
		if ctx.Err() != nil {
			return
		}
		pause(ctx, promise/4)
	}
	if w.Stop() != nil {
		s.host.book.write(entry{What: recorded, Run: s.id})
	}
}

// writeEnd writes how the run has ended.
func (s *slot) writeEnd(w *watchdog.Watchdog) {
	cause := context.Cause(w.Context())
	var code string
	var stop *watchdog.Stop
	switch {
	case errors.As(cause, &stop):
		code = string(stop.Code)
	case errors.Is(cause, watchdog.ErrComplete):
		code = string(completes)
	case errors.Is(cause, watchdog.ErrClosed):
		code = string(closes)
	default:
		code = cause.Error()
	}
	s.host.book.write(entry{What: ended, Run: s.id, Cause: code})
}
