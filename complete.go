package watchdog

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// Complete says that the run has done its work. It is recorded as [EventComplete], once, and then the run's context and
// its open layers end, with [ErrComplete] as the cause. A complete run never fires, whoever attaches to it and however
// late: New wraps [ErrComplete]. Resume opens a fresh window, to go on with it all the same. Call it before
// [Watchdog.Close].
//
// The first cause wins: if a limit was exceeded or another process cancelled the run before, Complete returns an error
// that wraps [ErrEnded] and the [Stop]. It wraps [ErrEnded] also if the run ended otherwise, or for a nil Watchdog. If
// the store fails or does not answer within the record timeout, Complete returns its error, the run goes on, and
// Complete can be called again; the store may keep the event after all. Calls at once share one try, and its error. A
// run that is complete already is no error.
func (w *Watchdog) Complete() error {
	if w == nil {
		return fmt.Errorf("complete: %w", errNoRun)
	}
	if err := w.r.completeRun(); err != nil {
		return fmt.Errorf("complete run %s: %w", w.r.node.Run, err)
	}
	return nil
}

func (r *run) completeRun() error {
	began, before := clocks.Now(r.tree.Clock), r.failedBefore()
	_ = r.poll() // a run that is late has ended
	defer func() { r.tellSince(began) }()
	e, err := r.decideComplete(before)
	switch {
	case err != nil:
		return err
	case e == nil:
		return r.completeEnding()
	}
	if err := r.carryOutComplete(e); err != nil {
		return err
	}
	r.tellKeeper(began)
	return r.completeEnding()
}

// decideComplete makes it the run's end that its work is done, nil if it has ended. It waits for a stop that is being
// recorded. If more tries have failed than before, it returns the error of the last.
func (r *run) decideComplete(before int) (e *lane.Ending, err error) {
	t := r.tree
	for {
		in := machine.Input{Kind: machine.Complete}
		parent := t.parentEnd()
		t.mu.Lock()
		failed := r.failed()
		if failed.tries > before && r.node.Phase() != machine.Over {
			t.mu.Unlock()
			return nil, failed.err
		}
		var k work
		t.stepAt(&k, t.now(parent), r, &in)
		if in.Trip != nil {
			e = &lane.Ending{Trip: in.Trip, Done: make(chan struct{}), Here: true}
			r.record.End(e)
		}
		t.mu.Unlock()
		k.pass(t, clocks.Now(t.Clock))
		if !in.Wait {
			return e, nil
		}
		<-k.ending.Done
	}
}

// carryOutComplete records that the work is done and then ends the run. If that cannot be recorded, the run goes on.
func (r *run) carryOutComplete(e *lane.Ending) error {
	known, err := fold.Window{}, journal.ErrExited
	defer func() { // also if the store ends this goroutine
		if err != nil {
			r.noteFailed(err)
		}
		r.Conclude(e, &known, nil)
	}()
	known, err = r.record.RecordComplete(e.Trip)
	return err
}

// completeEnding is nil for a run that is complete, or an error that says how it ended.
func (r *run) completeEnding() error {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	if r.complete {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrEnded, r.cause())
}

// failedCompletes are the tries to record that the run is complete which failed: how many, and the last one's error.
// The store may have kept the event of each.
type failedCompletes struct {
	tries int
	err   error
}

// failedBefore returns how many tries have failed. A later try that fails is shared by all calls that waited for it: if
// each of them tried by itself, the last would wait for all.
func (r *run) failedBefore() (tries int) {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	return r.failed().tries
}

// failed returns the tries that failed. The caller holds mu.
func (r *run) failed() failedCompletes {
	if r.more == nil {
		return failedCompletes{}
	}
	return r.more.failed
}

// noteFailed notes a try that failed, before it is over.
func (r *run) noteFailed(err error) {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	r.extras().failed = failedCompletes{r.failed().tries + 1, err}
}
