package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// maxLookups is how many ends a write looks up at most. It is as many reads, one after the other; the next write has
// the others.
const maxLookups = 100

type endWriter struct{ roster *roster }

// write writes the rows of runs that have ended, and then drops the runs. The ends of runs in doubt come last, so that
// the reads hold up no others.
func (w *endWriter) write(ctx context.Context, ends []Ending) error {
	var sure []Ending
	var doubtful []doubtfulEnd
	for _, e := range ends {
		if r := w.roster.kept(e.RunID); r != nil && r.attempt == e.Attempt {
			if d, doubt := doubted(e, r.run); doubt {
				doubtful = append(doubtful, d)
				continue
			}
		}
		sure = append(sure, e)
	}
	if err := w.writeSure(ctx, sure); err != nil {
		return err
	}
	settled, err := w.settle(ctx, doubtful)
	return errors.Join(err, w.writeSure(ctx, settled))
}

func (w *endWriter) settle(ctx context.Context, doubtful []doubtfulEnd) (settled []Ending, failed error) {
	ctx, cancel := context.WithTimeout(ctx, w.roster.cfg.RecordTimeout)
	defer cancel()
	for _, d := range doubtful[:min(len(doubtful), maxLookups)] {
		e, err := d.asStored(ctx, w.roster.cfg.Store)
		if err != nil {
			failed = err
			continue
		}
		settled = append(settled, e)
	}
	return settled, failed
}

// writeSure writes the rows, and drops the runs whose rows were written. Where the database came back older, attempts
// are counted again, so that another run of this process can have the number: that one lives, and is left alone.
func (w *endWriter) writeSure(ctx context.Context, ends []Ending) error {
	ended := map[AttemptID]*keptRun{}
	ends = slices.DeleteFunc(ends, func(e Ending) (lives bool) {
		r := w.roster.kept(e.RunID)
		if r == nil || r.attempt != e.Attempt {
			return false
		}
		ended[e.key()] = r
		return r.run.Context().Err() == nil
	})
	became, err := batch[Ending]{w.roster, ends, Ending.key, w.roster.cfg.Store.End}.writeAll(ctx)
	if err != nil {
		return err
	}
	for _, e := range ends {
		if r := ended[e.key()]; r != nil && became[e.RunID] != stayed {
			w.roster.drop(r)
		}
	}
	return nil
}

// An endQueue writes how runs have ended at once: those that end at the same time in one statement.
type endQueue struct {
	ends *endWriter

	mu      sync.Mutex
	queued  []Ending
	tried   chan struct{} // closed when it was tried to write those
	writing bool          // a goroutine does
}

// write writes an end, and returns when that was tried or ctx has ended.
func (q *endQueue) write(ctx context.Context, e Ending) {
	q.mu.Lock()
	if len(q.queued) == 0 {
		q.tried = make(chan struct{})
	}
	q.queued = append(q.queued, e)
	tried := q.tried
	if !q.writing {
		q.writing = true
		go q.writeAll(context.WithoutCancel(ctx))
	}
	q.mu.Unlock()
	select {
	case <-tried:
	case <-ctx.Done():
	}
}

func (q *endQueue) writeAll(ctx context.Context) {
	for {
		q.mu.Lock()
		ends, tried := q.queued, q.tried
		q.queued, q.writing = nil, len(ends) > 0
		q.mu.Unlock()
		if len(ends) == 0 {
			return
		}
		_ = q.ends.write(ctx, ends) // the next flush tries again, and logs that the store fails
		close(tried)
	}
}

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
	s.mu.Lock()
	runs := make([]*watchdog.Watchdog, 0, len(s.runs))
	for _, r := range s.runs {
		runs = append(runs, r.run)
	}
	s.mu.Unlock()
	for _, w := range runs {
		if w.Context().Err() != nil {
			n++
		}
	}
	return n
}
