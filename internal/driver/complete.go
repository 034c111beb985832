package driver

import (
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// failedCompletes are the tries to record that the run is complete which failed: how many, and the last one's error.
// The store may have kept the event of each.
type failedCompletes struct {
	tries int
	err   error
}

// FailedCompletes returns how many tries to record that the run is complete have failed. A later try that fails is
// shared by all calls that waited for it: if each of them tried by itself, the last would wait for all.
func (r *Run) FailedCompletes() (tries int) {
	r.Locked(func() { tries = r.failed().tries })
	return tries
}

// CompleteInDoubt reports whether the store may say that the run is complete, and it is not. The caller holds the lock.
func (r *Run) CompleteInDoubt() bool { return !r.complete && r.failed().tries > 0 }

// failed returns the tries that failed. The caller holds the lock.
func (r *Run) failed() failedCompletes {
	if r.more == nil {
		return failedCompletes{}
	}
	return r.more.failed
}

// RecordComplete makes it the run's end that its work is done, and then ends it: once that is recorded, on the caller's
// goroutine. If that cannot be recorded, the run goes on. A run that has ended stays so. It waits for a stop that is
// being recorded. If more tries have failed than before, it returns the error of the last. It reports whether this call
// ended the run.
func (r *Run) RecordComplete(before int) (ended bool, err error) {
	e, err := r.decideComplete(before)
	if e == nil {
		return false, err
	}
	err = r.carryOutComplete(e)
	return err == nil, err
}

func (r *Run) decideComplete(before int) (e *lane.Ending, err error) {
	t := r.Tree
	for {
		in := machine.Input{Kind: machine.Complete}
		parent := t.parentEnd()
		t.mu.Lock()
		failed := r.failed()
		if failed.tries > before && !r.over() {
			t.mu.Unlock()
			return nil, failed.err
		}
		var k Work
		t.stepAt(&k, t.now(parent), r, &in)
		if in.Trip != nil {
			e = &lane.Ending{Trip: in.Trip, Done: make(chan struct{}), Here: true}
			r.Record.End(e)
		}
		t.mu.Unlock()
		k.Pass(t, clocks.Now(t.Clock))
		if !in.Wait {
			return e, nil
		}
		<-k.Ending.Done
	}
}

func (r *Run) carryOutComplete(e *lane.Ending) error {
	known, err := fold.Window{}, journal.ErrExited
	defer func() { // also if the store ends this goroutine
		if err != nil {
			r.Locked(func() { r.extras().failed = failedCompletes{r.failed().tries + 1, err} })
		}
		r.Conclude(e, &known, nil)
	}()
	known, err = r.Record.RecordComplete(e.Trip)
	return err
}
