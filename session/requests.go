package session

import "time"

// beginAttaching notes that this process attaches to a run.
func (s *roster) beginAttaching(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attaching[runID]++
}

// endAttaching has an earlier attempt of this process find out what became of an attach that failed, and the run look
// for a cancel that it was told of meanwhile.
func (s *roster) endAttaching(runID string, failed bool) {
	s.mu.Lock()
	if s.attaching[runID]--; s.attaching[runID] == 0 {
		delete(s.attaching, runID)
	}
	told := s.toSync[runID]
	s.mu.Unlock()
	if failed || told {
		s.request(runID)
	}
}

// request has a run of this process look in the store for a cancel. Other runs are ignored: a listener is told of those
// of the whole fleet.
func (s *roster) request(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[runID] != nil || s.attaching[runID] > 0 {
		s.toSync[runID] = true
		wake(s.requested)
	}
}

// takeRequested returns the runs that are to look, and removes the requests. That of a run that this process still
// attaches to stays until it has.
func (s *roster) takeRequested() (all []*keptRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for runID := range s.toSync {
		r := s.runs[runID]
		if r == nil && s.attaching[runID] > 0 {
			continue
		}
		delete(s.toSync, runID)
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// requestAgain notes the result of a look, and requests another after one that failed, unless the stored data is at
// fault. It reports whether this is the first failure in a row.
func (s *roster) requestAgain(r *keptRun, err error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = err != nil && !r.syncFailed
	r.syncFailed = err != nil
	if err != nil && !permanent(err) {
		s.toSync[r.run.ID()] = true
	}
	return first
}

// heed decides about the row of an active session or of a later attempt, and reports whether the run was taken over.
// While this process attaches to the run the later attempt may be that one. After a row was lost another process can
// have begun an attempt with the same number: then the one whose lease has the row runs on. A row that is not in the
// lease is claimed back: the next flush writes it.
func (s *roster) heed(r *keptRun, row Session) (takenOver bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	later, active := row.Attempt > r.attempt, row.Status == Active
	switch {
	case s.runs[row.RunID] != r || later && s.attaching[row.RunID] > 0:
	case later || active && s.isForeign(row.Lease):
		return true
	case active && (s.held == nil || s.held.id != row.Lease):
		s.recheck(r)
	}
	return false
}

// madeAgain notes what the row of a run says that was made again, and has the next flush write it.
func (s *roster) madeAgain(r *keptRun, at, own, allowance time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.written, r.quiet, r.own, r.allowance = at, false, own, allowance
	s.recheck(r)
}
