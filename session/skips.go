package session

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// An outcome is what became of a row.
type outcome int

const (
	written  outcome = iota
	wentAway         // it is not this attempt's any more
	stayed           // it is locked or refused, and can be written later
)

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
