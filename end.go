package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
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

// maxSignal is how long the name of a signal may be.
const maxSignal = 100

// An Interruption is the cause of a run's context after [Watchdog.Interrupt]. It must not be changed.
type Interruption struct {
	// RunID is the run, By what the host said had ended it.
	RunID, By string
}

// Error says which run was interrupted and by what.
func (i *Interruption) Error() string {
	return fmt.Sprintf("run %s interrupted by %s", i.RunID, i.By)
}

// Interrupt ends the run for a reason from outside, such as "SIGINT" or "shutdown": at once, with an [Interruption] as
// the cause of its context. Then it records that as [EventInterrupt]. It is not a stop: the run has not fired, and
// attaching again continues its window. The signal is written to the event; it must not hold anything secret.
//
// The error wraps [ErrInvalid] for a signal that is empty, has control characters or more than 100 characters;
// [ErrEnded] if the run has ended already, or for a nil Watchdog (nothing is recorded then); or the store's error, with
// the run ended.
func (w *Watchdog) Interrupt(signal string) error {
	if w == nil {
		return fmt.Errorf("interrupt: %w", errNoRun)
	}
	if err := w.r.interrupt(signal); err != nil {
		return fmt.Errorf("interrupt run %s: %w", w.r.Node.Run, err)
	}
	return nil
}

func (r *run) interrupt(signal string) error {
	if flaw := textFlaw(signal, maxSignal); flaw != "" {
		return fmt.Errorf("%w signal: it %s", ErrInvalid, flaw)
	}
	began := clocks.Now(r.Tree.Clock)
	ended := r.End(&Interruption{r.Node.Run, signal})
	told := r.TellAside()
	defer func() { r.Tree.Await(began, told) }()
	if !ended {
		return fmt.Errorf("%w: %w", ErrEnded, r.Cause())
	}
	return r.Record.Append(r.Values(), r.interruptEvent(signal, ""))
}

// interruptEvent says that the signal ended the run now. An empty name makes an event of its own.
func (r *run) interruptEvent(signal, name string) (e fold.Event) {
	r.Locked(func() { e = r.Node.Moment(r.Now()).Interrupt(signal, name) })
	return e
}

// Close ends the watching. A run that has not ended otherwise ends by it, without an event; its context's cause is
// [ErrClosed]. If an event of the run could not be recorded yet, or what a call used beyond its admission could not be
// charged ([Charge.Settle]), Close tries once more and returns the error if that fails; it can be called again to try
// again, and nothing else does any more. Otherwise, and for a nil Watchdog, it returns nil. It waits at most twice the
// record timeout.
func (w *Watchdog) Close() error {
	if w == nil {
		return nil
	}
	w.r.Record.Close()
	began, nothing := w.r.Close(ErrClosed)
	if nothing && !w.r.hasMore() && w.r.account.Load() == nil { // nearly always
		return nil
	}
	if err := w.r.close(began); err != nil {
		return fmt.Errorf("close watchdog of run %s: %w", w.r.Node.Run, err)
	}
	return nil
}

// close does what is left to do for a run that has ended by it, or before.
func (r *run) close(began time.Time) (err error) {
	t, told := r.Tree, r.TellAside()
	spending := clocks.Now(t.Clock)
	spent := r.account.Load().close()
	defer func() {
		t.Await(spending, spent)
		if r.Outer() == nil {
			err = errors.Join(err, t.Shared().Unpaid())
		}
	}()
	t.Await(began, r.Record.Underway())
	defer r.tellKeeper(began)
	if r.Record.Waiting() {
		if err := r.Record.Flush(); err != nil {
			return err
		}
	}
	r.closeSteps(t.Left(began))
	t.Await(began, told)
	return nil
}

// tellKeeper has the host's keeper write down that the run has ended. The caller has waited since began.
func (r *run) tellKeeper(began time.Time) {
	var keeper func(context.Context)
	r.Locked(func() {
		if r.more != nil {
			keeper = r.more.keeper
		}
	})
	left := r.Tree.Left(began)
	if keeper == nil || left <= 0 {
		return
	}
	ctx, cancel := clocks.WithTimeout(r.Values(), r.Tree.Clock, left)
	defer cancel()
	_, err := bounded.Do(ctx, func() (struct{}, error) { keeper(ctx); return struct{}{}, nil })
	if err != nil {
		r.LogSince(began, func() {
			r.log().Error("the keeper of a run did not take its end", "run", r.Node.Run, "error", err)
		})
	}
}
