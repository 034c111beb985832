package session

import "fmt"

// Validate reports whether the status is one of an attempt that has ended. Every store's End refuses the others.
func (e Ending) Validate() error {
	switch e.Status {
	case Cancelled, Interrupted, Finished:
		return nil
	default:
		return fmt.Errorf("end attempt %d of run %s: %q is not how an attempt ends; use %q, %q or %q",
			e.Attempt, e.RunID, e.Status, Cancelled, Interrupted, Finished)
	}
}

// Validate reports whether the limit is at least 1. Every store's Stalled refuses the others.
func (q Query) Validate() error {
	if q.Limit < 1 {
		return fmt.Errorf("find stalled sessions: the limit is %d; ask for at least 1", q.Limit)
	}
	return nil
}
