package session

import (
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A roster is what a keeper knows: its lease, its runs, and which of them are to read the store. It decides what is to
// be done and calls neither the store nor a run, so that its mutex is never held for long. It is safe for concurrent
// use.
type roster struct {
	cfg       *KeeperConfig
	startedAt time.Time
	requested chan struct{} // has room for one: a run is to read the store

	mu        sync.Mutex
	lookedAt  time.Duration   // when all runs were looked at, dormant ones too
	held      *heldLease      // nil before the first run, and once it has expired
	own       map[string]bool // the leases that it has, and had
	runs      map[string]*keptRun
	awake     map[*keptRun]struct{} // those of runs that are not dormant
	attaching map[string]int        // the attaches to each run that have not returned
	toSync    map[string]bool       // the runs that are to read their events for a cancel
}

func newRoster(cfg *KeeperConfig) *roster {
	return &roster{
		cfg: cfg, startedAt: time.Now(), requested: make(chan struct{}, 1), own: map[string]bool{},
		runs: map[string]*keptRun{}, awake: map[*keptRun]struct{}{}, attaching: map[string]int{},
		toSync: map[string]bool{},
	}
}

func (s *roster) now() time.Duration { return time.Since(s.startedAt) }

// add keeps a run, unless a later attempt at it is kept already. Its row is in a lease, which may have expired since.
func (s *roster) add(r *keptRun, l *heldLease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.recheck = r.recheck || s.held != l
	if there := s.runs[r.run.ID()]; there == nil || there.attempt <= r.attempt {
		delete(s.awake, there)
		s.runs[r.run.ID()], s.awake[r] = r, struct{}{}
	}
}

func (s *roster) drop(r *keptRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[r.run.ID()] == r {
		delete(s.runs, r.run.ID())
		delete(s.awake, r)
	}
}

// attempt returns a run if that attempt at it is kept, or nil. The mutex is held.
func (s *roster) attempt(a AttemptID) *keptRun {
	if r := s.runs[a.RunID]; r != nil && r.attempt == a.Attempt {
		return r
	}
	return nil
}

func (s *roster) kept(runID string) *keptRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[runID]
}

func (s *roster) live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// unended returns those of rows of runs that have ended which do not say so yet.
func (s *roster) unended(ended []RowBehind) (all []RowBehind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range ended {
		if s.attempt(b.key()) != nil {
			all = append(all, b)
		}
	}
	return all
}

func (s *roster) lease() *heldLease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// begun has the runs that are kept claimed back from the lease before, if there was one: those that are not active any
// more are gone, and read why.
func (s *roster) begun(l *heldLease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.own[l.id] = l, true
	for _, r := range s.runs {
		r.quiet, r.written, r.tried, r.allowance = false, 0, 0, 0 // the new lease knows nothing of the row
		s.recheck(r)
	}
}

// doubtRows notes whether a renewal failed. When renewals begin to fail, and when they work again, it has the next
// flush write all rows, whatever was acknowledged, and the lease vouch for nothing new until then, nor while they fail.
// That a renewal fails can be all that is seen of a server whose standby takes its place, and that lost what was
// acknowledged last: a run that woke up would look silent for ever, or one that fell silent awake.
func (s *roster) doubtRows(l *heldLease, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.fails == fails {
		return
	}
	l.fails = fails
	l.doubts++
	l.vouched, l.covered = 0, 0 // the database keeps what it has, and which rows are behind: no other is older
	for _, r := range s.runs {
		r.state = nil
		s.recheck(r)
	}
}

func (s *roster) doubtsOf(l *heldLease) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.doubts
}

// lose forgets a lease that has expired, and reports whether it was not forgotten before.
func (s *roster) lose(l *heldLease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.held == l
	if lost {
		s.held = nil
	}
	return lost
}

// isForeign reports whether a lease is another process's: one that this process has had can have come back with an
// older copy of the database. The mutex is held.
func (s *roster) isForeign(lease string) bool { return lease != "" && !s.own[lease] }

// foreign is isForeign without the mutex.
func (s *roster) foreign(lease string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isForeign(lease)
}

func (s *roster) renewal(l *heldLease) Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.renewal()
}

// renewed notes that the store answered a renewal.
func (s *roster) renewed(l *heldLease, beat int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.answered = max(l.answered, beat)
}

func (s *roster) giveUp() *heldLease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		return nil
	}
	last := *s.held
	s.held = nil
	return &last
}

// wake fills a channel that has room for one.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

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
