package session

import "context"

// compare compares the rows that name the lease with the runs that are kept. A run that no row names reads its row, to
// find out what became of it. A row that nobody keeps, twice in a row, is of an attach whose answer was lost: it is
// ended, because nobody runs it.
func (k *Keeper) compare(ctx context.Context) {
	l := k.current()
	if l == nil {
		return
	}
	kept := k.keptAttempts()
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	named, err := k.cfg.Store.LeaseSessions(ctx, l.id)
	if err != nil {
		return // flush logs an outage of the store
	}
	if strays := k.compareWith(kept, named); len(strays) > 0 {
		k.logger().Warn("rows of this process are of no run of it and are ended", "runs", len(strays))
		k.endStrays(ctx, strays)
	}
}

// endStrays ends rows that nobody runs. Each says how the run ended as far as that is stored. The next comparison finds
// what was not ended.
func (k *Keeper) endStrays(ctx context.Context, strays []Ending) {
	var ends []Ending
	for _, e := range strays {
		s, err := k.cfg.Store.Session(ctx, e.RunID)
		if err == nil {
			e, err = k.asStored(ctx, e, s.StartedAt, false)
		}
		if err == nil || permanent(err) {
			ends = append(ends, e)
		}
	}
	_, _ = k.cfg.Store.End(ctx, ends)
}

// keptAttempts returns the attempts that are kept now.
func (k *Keeper) keptAttempts() map[AttemptID]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := make(map[AttemptID]bool, len(k.runs))
	for runID, r := range k.runs {
		kept[AttemptID{runID, r.attempt}] = true
	}
	return kept
}

// compareWith has runs read their rows that were kept before the rows were read and are not among them, and returns how
// to end those that nobody kept then or at the comparison before.
func (k *Keeper) compareWith(kept map[AttemptID]bool, named []AttemptID) (ends []Ending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	strays := map[AttemptID]bool{}
	for _, a := range named {
		if r := k.runs[a.RunID]; r != nil && r.attempt == a.Attempt {
			delete(kept, a)
			continue
		}
		if strays[a] = true; k.strays[a] {
			ends = append(ends, Ending{RunID: a.RunID, Attempt: a.Attempt, Status: Interrupted})
		}
	}
	k.strays = strays
	for a := range kept {
		if r := k.runs[a.RunID]; r != nil && r.attempt == a.Attempt {
			k.toSync[a.RunID] = true
			wake(k.wake)
		}
	}
	return ends
}
