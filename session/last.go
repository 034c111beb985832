package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// The shortest and the longest pause of the last write between two tries. They double.
const (
	shortestLastPause = LockWait / 8
	longestLastPause  = time.Second
)

// errSkipped is why an end is not written of a store that has answered.
var errSkipped = errors.New("the row is locked or refused, or the run's events are not stored")

// writeLast writes what there is, again and again, until the rows of all runs that have ended say how: nobody else
// knows. It returns an error if there are some that do not when ctx ends.
func (f *flusher) writeLast(ctx context.Context) (failed error) {
	for tries := 0; ; tries++ {
		err := f.writeAllEnds(ctx)
		left := f.roster.unwritten()
		if left == 0 && err == nil {
			return nil
		}
		if failed == nil || ctx.Err() == nil { // the time that is over says nothing about the store
			failed = err
		}
		pause := verdict.Doubled(shortestLastPause, longestLastPause, tries)
		select {
		case <-time.After(pause/2 + clocks.Spread(pause/2+1)): // many processes can wait for one store
		case <-ctx.Done():
			return f.unwrittenError(left, failed)
		}
	}
}

// unwrittenError is nil if nothing is left.
func (f *flusher) unwrittenError(left int, failed error) error {
	if failed == nil {
		failed = errSkipped
	}
	ends := fmt.Sprintf("the ends of %d runs are", left)
	switch left {
	case 0:
		return nil
	case 1:
		ends = "the end of 1 run is"
	}
	return fmt.Errorf("%s not written after %v: a sweeper finds that the process of such a run has died, and may "+
		"have it resumed: %w", ends, 2*f.roster.cfg.RecordTimeout, failed)
}

// writeAllEnds writes what there is together, also the rows that were refused, and then waits for each end whose row is
// locked.
func (f *flusher) writeAllEnds(ctx context.Context) error {
	f.roster.endPauses()
	written, err := f.writeNews(ctx)
	for _, e := range written.ends {
		if err != nil || ctx.Err() != nil {
			return err
		}
		if f.roster.isLocked(e.key()) {
			err = f.ends.write(ctx, []Ending{e})
		}
	}
	return err
}

// endPauses has the next flush write the rows that were refused, too.
func (s *roster) endPauses() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		r.skips.again = 0
	}
}

// isLocked reports whether the row of an attempt was locked when it was written last.
func (s *roster) isLocked(a AttemptID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.attempt(a)
	return r != nil && r.skips.locked
}

// unwritten returns how many runs have ended whose rows do not say how. It asks them without the mutex: a question can
// end a run with its parent, and so call the host.
func (s *roster) unwritten() (n int) {
	for _, w := range s.watchdogs() {
		if w.Context().Err() != nil {
			n++
		}
	}
	return n
}
