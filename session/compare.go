package session

import "context"

// A comparer compares the rows that name the lease with the runs that are kept.
type comparer struct {
	roster *roster
	strays map[AttemptID]bool // in rows of the lease, and not kept, at the last comparison
}

// compare has a run that no row names read its row, to find out what became of it. A row that nobody keeps, twice in a
// row, is of an attach whose answer was lost: it is ended, because nobody runs it.
func (c *comparer) compare(ctx context.Context) {
	l, cfg := c.roster.lease(), c.roster.cfg
	if l == nil {
		return
	}
	kept := c.roster.attempts()
	ctx, cancel := context.WithTimeout(ctx, cfg.RecordTimeout)
	defer cancel()
	named, err := cfg.Store.LeaseSessions(ctx, l.id)
	if err != nil {
		return // flush logs an outage of the store
	}
	var twice []AttemptID
	strays := map[AttemptID]bool{}
	for _, a := range c.roster.compare(kept, named) {
		if strays[a] = true; c.strays[a] {
			twice = append(twice, a)
		}
	}
	if c.strays = strays; len(twice) > 0 {
		cfg.logger().Warn("rows of this process are of no run of it and are ended", "runs", len(twice))
		c.end(ctx, twice)
	}
}

// end ends rows that nobody runs. Each says how the run ended as far as that is stored. The next comparison finds what
// was not ended.
func (c *comparer) end(ctx context.Context, strays []AttemptID) {
	store := c.roster.cfg.Store
	var ends []Ending
	for _, a := range strays {
		e := Ending{RunID: a.RunID, Attempt: a.Attempt, Status: Interrupted}
		s, err := store.Session(ctx, a.RunID)
		if err == nil {
			e, err = doubtfulEnd{e, s.StartedAt, false}.asStored(ctx, store)
		}
		if err == nil || permanent(err) {
			ends = append(ends, e)
		}
	}
	_, _ = store.End(ctx, ends)
}

// attempts returns the attempts that are kept now.
func (s *roster) attempts() map[AttemptID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[AttemptID]bool, len(s.runs))
	for runID, r := range s.runs {
		kept[AttemptID{runID, r.attempt}] = true
	}
	return kept
}

// compare has runs read their rows that were kept before the rows were read and are not among those that name the
// lease, and returns those of the named that nobody keeps.
func (s *roster) compare(kept map[AttemptID]bool, named []AttemptID) (strays []AttemptID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range named {
		if s.attempt(a) == nil {
			strays = append(strays, a)
			continue
		}
		delete(kept, a)
	}
	for a := range kept {
		if s.attempt(a) != nil {
			s.toSync[a.RunID] = true
			wake(s.requested)
		}
	}
	return strays
}
