package session

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// skips is what a keeper remembers of a row that it could not write.
type skips struct {
	locked   bool
	since    time.Duration // when it was locked first, or waited for in vain
	refusals int
	again    time.Duration // it is left alone until then
}

func (s *skips) paused(now time.Duration) bool { return now < s.again }

func (f Freshness) key() AttemptID { return AttemptID{f.RunID, f.Attempt} }

func (e Ending) key() AttemptID { return AttemptID{e.RunID, e.Attempt} }

// An outcome is what became of a row.
type outcome int

const (
	written  outcome = iota
	wentAway         // it is not this attempt's any more
	stayed           // it is locked or refused, and can be written later
)

// A batch is the rows that one statement writes.
type batch[E any] struct {
	k     *Keeper
	rows  []E
	keyOf func(E) AttemptID
	write func(context.Context, []E) (Skipped, error)
}

// writeAll writes the batch, and then the row alone that was locked for longest, if that is long enough to wait for it.
func (b batch[E]) writeAll(ctx context.Context) (outcomes, error) {
	if len(b.rows) == 0 {
		return nil, nil
	}
	all, err := b.writePart(ctx, b.rows)
	at := b.lockedLongest()
	if err != nil || at < 0 {
		return all, err
	}
	alone, err := b.writePart(ctx, b.rows[at:at+1])
	if err != nil {
		return nil, err
	}
	runID := b.keyOf(b.rows[at]).RunID
	all[runID] = alone[runID]
	return all, nil
}

// writePart writes some of the rows, and notes which of them were skipped.
func (b batch[E]) writePart(ctx context.Context, part []E) (outcomes, error) {
	ctx, cancel := context.WithTimeout(ctx, b.k.cfg.RecordTimeout)
	defer cancel()
	skipped, err := b.write(ctx, part)
	if err != nil {
		return nil, err
	}
	all := skipped.outcomes()
	for _, e := range part {
		key := b.keyOf(e)
		b.k.noteSkip(key, all[key.RunID], len(part) == 1, skipped.Failed[key.RunID])
	}
	return all, nil
}

// lockedLongest returns the place of the row that has been locked for longest, if it is time to wait for it, or -1. A
// row of an attempt that another has followed meanwhile is gone, so that there is nothing to wait for.
func (b batch[E]) lockedLongest() int {
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	now, at, since := b.k.now(), -1, time.Duration(0)
	for i, e := range b.rows {
		key := b.keyOf(e)
		r := b.k.runs[key.RunID]
		if r == nil || r.attempt != key.Attempt || !r.skips.locked || !verdict.TakeAlone(r.threshold, now-r.skips.since) {
			continue
		}
		if at < 0 || r.skips.since < since {
			at, since = i, r.skips.since
		}
	}
	return at
}

// noteSkip notes whether a row was written, alone or not. A row that was waited for in vain has to wait for its turn
// again: else one that stays locked would be the only one that is waited for. The log has the first of several refusals
// in a row.
func (k *Keeper) noteSkip(key AttemptID, became outcome, alone bool, refused error) {
	k.mu.Lock()
	r := k.runs[key.RunID]
	if r == nil || r.attempt != key.Attempt {
		k.mu.Unlock()
		return
	}
	now := k.now()
	switch {
	case refused != nil:
		refusals := r.skips.refusals + 1
		r.skips = skips{refusals: refusals, again: now + verdict.RetryRefused(r.threshold, k.cfg.Pace, refusals)}
	case became == stayed && (alone || !r.skips.locked):
		r.skips = skips{locked: true, since: now}
	case became != stayed:
		r.skips = skips{}
	}
	if r.skips != (skips{}) {
		k.rouse(r)
	}
	first := r.skips.refusals == 1
	k.mu.Unlock()
	if first {
		k.logger().Error("the database refuses the row of a session; other rows are written",
			"run", key.RunID, "error", refused)
	}
}

// outcomes are what became of rows, by run.
type outcomes map[string]outcome

func (s Skipped) outcomes() outcomes {
	all := make(outcomes, len(s.Gone)+len(s.Locked)+len(s.Failed))
	for _, runID := range s.Gone {
		all[runID] = wentAway
	}
	for _, runID := range s.Locked {
		all[runID] = stayed
	}
	for runID := range s.Failed {
		all[runID] = stayed
	}
	return all
}
