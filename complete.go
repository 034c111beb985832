package watchdog

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/clocks"
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
		return fmt.Errorf("complete run %s: %w", w.r.Node.Run, err)
	}
	return nil
}

func (r *run) completeRun() error {
	began, before := clocks.Now(r.Tree.Clock), r.FailedCompletes()
	_ = r.poll() // a run that is late has ended
	defer func() { r.TellSince(began) }()
	ended, err := r.RecordComplete(before)
	if err != nil {
		return err
	}
	if ended {
		r.tellKeeper(began)
	}
	complete := false
	r.Locked(func() { complete = r.Complete() })
	if !complete {
		return r.errEnded()
	}
	return nil
}
