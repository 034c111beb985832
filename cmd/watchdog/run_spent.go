package main

import (
	"slices"
	"time"
)

// spentPace is the time from one look at what is spent to the next.
const spentPace = 2 * time.Second

// showSpent has the row of the run say what its command has spent, until the func that it returns is called: the keeper
// writes that with the signs of life, and a command that may be silent gives none.
func (r *runRecord) showSpent(plan *meterPlan) (end func()) {
	if plan == nil || !r.stored() {
		return func() {}
	}
	ticker, ended := time.NewTicker(spentPace), make(chan struct{})
	go func() {
		defer ticker.Stop()
		known := r.run.Usage()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
			}
			if used := r.run.Usage(); !slices.Equal(used, known) {
				known = used
				r.kept.Refresh(r.run.ID())
			}
		}
	}()
	return func() { close(ended) }
}
