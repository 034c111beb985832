package session

import (
	"cmp"
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

func (f Freshness) key() AttemptID { return AttemptID{f.RunID, f.Attempt} }

func (e Ending) key() AttemptID { return AttemptID{e.RunID, e.Attempt} }

type batch[E any] struct {
	roster *roster
	rows   []E
	keyOf  func(E) AttemptID
	write  func(context.Context, []E) (Skipped, error)
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

// writePart writes some of the rows, and notes which of them were skipped. The log has the first of several refusals in
// a row.
func (b batch[E]) writePart(ctx context.Context, part []E) (outcomes, error) {
	cfg := b.roster.cfg
	ctx, cancel := context.WithTimeout(ctx, cfg.RecordTimeout)
	defer cancel()
	skipped, err := b.write(ctx, part)
	if err != nil {
		return nil, err
	}
	all := skipped.outcomes()
	for _, e := range part {
		key := b.keyOf(e)
		t := try{all[key.RunID], len(part) == 1, skipped.Failed[key.RunID]}
		if b.roster.noteTry(key, t) == 1 {
			cfg.logger().Error("the database refuses the row of a session; other rows are written",
				"run", key.RunID, "error", t.refused)
		}
	}
	return all, nil
}

// lockedLongest returns the place of the row that has been locked for longest, if it is time to wait for it, or -1. Of
// those that were tried together it is the one that is furthest behind. A row of an attempt that another has followed
// meanwhile is gone, so that there is nothing to wait for.
func (b batch[E]) lockedLongest() int {
	b.roster.mu.Lock()
	defer b.roster.mu.Unlock()
	now, at := b.roster.now(), -1
	var since, written time.Duration
	for i, e := range b.rows {
		r := b.roster.attempt(b.keyOf(e))
		if r == nil || !r.skips.locked || !verdict.TakeAlone(r.threshold, now-r.skips.since) {
			continue
		}
		if at < 0 || cmp.Or(cmp.Compare(r.skips.since, since), cmp.Compare(r.written, written)) < 0 {
			at, since, written = i, r.skips.since, r.written
		}
	}
	return at
}

// noteTry notes what became of the row of an attempt, and returns how often in a row it was refused.
func (s *roster) noteTry(a AttemptID, t try) (refusals int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.attempt(a)
	if r == nil {
		return 0
	}
	if r.skips = r.skips.after(t, s.now(), r.threshold, s.cfg.Pace); r.skips != (skips{}) {
		s.rouse(r)
	}
	return r.skips.refusals
}

type outcome int

const (
	written  outcome = iota
	wentAway         // it is not this attempt's any more
	stayed           // it is locked or refused, and can be written later
)

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

// skips is what a keeper remembers of a row that it could not write.
type skips struct {
	locked   bool
	since    time.Duration // when it was locked first, or waited for in vain
	refusals int
	again    time.Duration // it is left alone until then
}

func (s *skips) paused(now time.Duration) bool { return now < s.again }

// A try is what became of a row when it was written, alone or with others.
type try struct {
	became  outcome
	alone   bool
	refused error
}

// after returns what to remember after a try. A row that was waited for in vain has to wait for its turn again: else
// one that stays locked would be the only one that is waited for.
func (s *skips) after(t try, now, threshold, pace time.Duration) skips {
	switch {
	case t.refused != nil:
		refusals := s.refusals + 1
		return skips{refusals: refusals, again: now + verdict.RetryRefused(threshold, pace, refusals)}
	case t.became == stayed && (t.alone || !s.locked):
		return skips{locked: true, since: now}
	case t.became != stayed:
		return skips{}
	}
	return *s
}
