package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
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

// finish writes what there is once more, and gives the lease up, which is renewed until then: the process lives. It
// takes at most twice the record timeout.
func (k *Keeper) finish(ctx context.Context, endRenewing func()) error {
	ctx, cancel := context.WithTimeout(ctx, 2*k.cfg.RecordTimeout)
	defer cancel()
	err := k.writeLast(ctx)
	endRenewing()
	k.endLease(ctx)
	return err
}

// writeLast writes what there is, again and again, until the rows of all runs that have ended say how: nobody else
// knows. It returns an error if there are some that do not when ctx ends.
func (k *Keeper) writeLast(ctx context.Context) (failed error) {
	for tries := 0; ; tries++ {
		err := k.writeAllEnds(ctx)
		left := k.unwritten()
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
			return k.unwrittenError(left, failed)
		}
	}
}

// unwrittenError is nil if nothing is left.
func (k *Keeper) unwrittenError(left int, failed error) error {
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
		"have it resumed: %w", ends, 2*k.cfg.RecordTimeout, failed)
}

// writeAllEnds writes what there is together, also the rows that were refused, and then waits for each end whose row is
// locked.
func (k *Keeper) writeAllEnds(ctx context.Context) error {
	k.endPauses()
	written, err := k.writeNews(ctx)
	for _, e := range written.ends {
		if err != nil || ctx.Err() != nil {
			return err
		}
		if k.isLocked(e.key()) {
			err = k.end(ctx, []Ending{e})
		}
	}
	return err
}

// endPauses has the next flush write the rows that were refused, too.
func (k *Keeper) endPauses() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.runs {
		r.skips.again = 0
	}
}

// isLocked reports whether the row of an attempt was locked when it was written last.
func (k *Keeper) isLocked(a AttemptID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.runs[a.RunID]
	return r != nil && r.attempt == a.Attempt && r.skips.locked
}

// unwritten returns how many runs have ended whose rows do not say how. It asks them without the mutex: a question can
// end a run with its parent, and so call the host.
func (k *Keeper) unwritten() (n int) {
	k.mu.Lock()
	all := make([]*watchdog.Watchdog, 0, len(k.runs))
	for _, r := range k.runs {
		all = append(all, r.run)
	}
	k.mu.Unlock()
	for _, w := range all {
		if w.Context().Err() != nil {
			n++
		}
	}
	return n
}
