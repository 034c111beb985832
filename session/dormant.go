package session

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A copiedRun is a copy of a kept run, for a look at it without the mutex.
type copiedRun struct {
	keptRun
	of    *keptRun
	ended bool
}

// askedTogether is how many runs are asked whether they have ended before any of them is asked for its silence. Most of
// what a look costs is waiting for memory, and the processor waits for several runs at once only where no lock is
// between them.
const askedTogether = 64

// snapshot adds copies of the runs to look at, and clears the rechecks of those whose rows may be written now. A run
// that had nothing new for long is dormant: it is looked at once in each renewal of the lease, and as often as at the
// default promise where that is longer, for its row has to say soon that it has ended. Snapshot reports whether it left
// dormant ones out.
func (s *roster) snapshot(into []copiedRun, all bool) (asked []copiedRun, dormant bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	asked = into
	if all || now-s.lookedAt >= verdict.RenewAfter(min(s.cfg.Promise, DefaultPromise)) {
		s.lookedAt = now
		for _, r := range s.runs {
			asked = r.copyTo(asked, now)
		}
	} else {
		for r := range s.awake {
			asked = r.copyTo(asked, now)
		}
	}
	return asked, len(asked) < len(s.runs)
}

func (r *keptRun) copyTo(asked []copiedRun, now time.Duration) []copiedRun {
	asked = append(asked, copiedRun{keptRun: *r, of: r})
	if !r.skips.paused(now) {
		r.recheck = false
	}
	return asked
}

// noteDormant notes which runs are dormant. A reason to look at one again can have come up meanwhile.
func (s *roster) noteDormant(asked []copiedRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range asked {
		switch r := asked[i].of; {
		case !asked[i].dormant:
			s.rouse(r)
		case !r.dormant && !r.recheck && r.skips == (skips{}):
			r.dormant = true
			delete(s.awake, r)
		}
	}
}

// rouse has the next flush look at a run, also if it is dormant. The mutex is held.
func (s *roster) rouse(r *keptRun) {
	if r.dormant && s.runs[r.run.ID()] == r {
		r.dormant = false
		s.awake[r] = struct{}{}
	}
}

// refresh has the next flush write the row of a run.
func (s *roster) refresh(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[runID]; r != nil {
		s.recheck(r)
	}
}

// recheck has the next flush write the row of a run, to learn whether it is still this attempt's. The mutex is held.
func (s *roster) recheck(r *keptRun) {
	r.recheck = true
	s.rouse(r)
}
