package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
)

// Complete says that the run has done its work. It is recorded as [event.Complete], once, and then the run's context
// and its open layers end, with [ErrComplete] as the cause. A complete run never fires, whoever attaches to it and
// however late: New wraps [ErrComplete]. Resume opens a fresh window, to go on with it all the same. Call it before
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
// the cause of its context. Then it records that as [event.Interrupt]. It is not a stop: the run has not fired, and
// attaching again continues its window. The signal is written to the event; it must not hold anything secret.
//
// The error wraps [ErrInvalid] for a signal that is empty, has control characters or more than 100 characters;
// [ErrEnded] if the run has ended already, or for a nil Watchdog (nothing is recorded then); or the store's error, with
// the run ended. Then it is tried again, as a stop is, until Close has returned.
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
	if flaw := event.Flaw(signal, maxSignal); flaw != "" {
		return fmt.Errorf("%w signal: it %s", ErrInvalid, flaw)
	}
	began := clocks.Now(r.Tree.Clock)
	ended := r.End(&Interruption{r.Node.Run, signal})
	told := r.TellAside()
	defer func() { r.Tree.Await(began, told) }()
	if !ended {
		return r.errEnded()
	}
	return r.Record.AppendOrKeep(r.Values(), r.interruptEvent(signal, ""))
}

// interruptEvent says that the signal ended the run now. An empty name makes an event of its own.
func (r *run) interruptEvent(signal, name string) (e event.Event) {
	r.Locked(func() { e = r.Node.Moment(r.Now()).Interrupt(signal, name) })
	return e
}

// Close ends the watching. A run that has not ended otherwise ends by it, without an event; its context's cause is
// [ErrClosed]. If an event of the run could not be recorded yet, Close tries once more and returns the error if that
// fails; it can be called again to try again, and nothing else does any more. Otherwise, and for a nil Watchdog, it
// returns nil. It waits at most twice the record timeout.
func (w *Watchdog) Close() error {
	if w == nil {
		return nil
	}
	w.r.Record.Close()
	began, nothing := w.r.Close(ErrClosed)
	if nothing && w.r.account.Load() == nil { // nearly always
		more := false
		if w.r.Locked(func() { more = w.r.more != nil }); !more {
			return nil
		}
	}
	if err := w.r.close(began); err != nil {
		return fmt.Errorf("close watchdog of run %s: %w", w.r.Node.Run, err)
	}
	return nil
}

// close does what is left to do for a run that has ended by it, or before.
func (r *run) close(began time.Time) error {
	t, told := r.Tree, r.TellAside()
	r.account.Load().close()
	t.Await(began, r.Record.Underway())
	defer r.tellKeeper(began)
	if r.Record.Waiting() {
		if err := r.Record.Flush(); err != nil {
			return err
		}
	}
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

// loopPanicked is the signal of the interrupt of a run whose loop did not return.
const loopPanicked = "panic"

// Do guards a host's main loop from its beginning to its end. It attaches to the run as [New] does, and does the rest
// as [Watchdog.Do]. If New fails Do returns its error, as for a run that is complete already; loop is not called then.
// To go on with a run that was stopped, call [Resume] and the method. The error wraps [ErrInvalid] if loop is nil.
func Do(ctx context.Context, run Run, cfg Config, loop func(context.Context, *Watchdog) error) error {
	if err := checkWork(loop); err != nil {
		return err
	}
	w, err := New(ctx, run, cfg)
	if err != nil {
		return err
	}
	return w.Do(loop)
}

// Do calls loop on this goroutine with the run's context, says that the run has done its work if loop returned nil, see
// [Watchdog.Complete], and closes the watchdog, whatever it returns. It returns nil only if the run is complete. It is
// for a run that was attached to or resumed just now, and for a layer.
//
// The error is what loop returned. If the run has ended by then, the cause of its context is joined to that: the [Stop]
// where a guard ended the run, also if loop returned nil; the parent's cause where the parent ended. The cause is there
// once, whether loop returned it, wrapped it, or returned no more than [context.Canceled]. A run that has not ended can
// be attached to again, and goes on where it stands.
//
// If the run is stopped already, or its budget used up, Do returns the Stop and does not call loop, and if it has ended
// otherwise an error that wraps [ErrEnded] and the cause. If it cannot be recorded that the run is complete, Do returns
// the store's error after one attempt, and the run is not; a loop that wants to try again calls Complete itself. The
// error of [Watchdog.Close] is joined, too.
//
// A panic in loop passes through, as does [runtime.Goexit]. Before that the run ends, with an [event.Interrupt] of the
// signal "panic", which has nothing of what the panic says, and is closed; it can be attached to again.
//
// Do waits for loop as long as it takes: one that ignores its context is never left behind. (Package bound does that
// for a single call.) It waits for the store, besides, as Complete and Close do. The error wraps [ErrInvalid] if loop
// is nil, and [ErrEnded] for a nil Watchdog.
func (w *Watchdog) Do(loop func(context.Context, *Watchdog) error) error {
	if w == nil {
		return fmt.Errorf("do: %w", errNoRun)
	}
	err := checkWork(loop)
	if err == nil {
		err = w.guard(loop)
	}
	if closing := w.Close(); closing != nil {
		return errors.Join(err, closing)
	}
	return err
}

func checkWork(loop func(context.Context, *Watchdog) error) error {
	if loop == nil {
		return fmt.Errorf("%w loop: it is nil; pass the function that does the work of the run", ErrInvalid)
	}
	return nil
}

// guard returns the error of Do, but for what Close has to say.
func (w *Watchdog) guard(loop func(context.Context, *Watchdog) error) error {
	if stop := w.Stop(); stop != nil {
		return stop
	}
	if w.r.ended() {
		return fmt.Errorf("do the work of run %s: %w", w.r.Node.Run, w.r.errEnded())
	}
	returned := false
	defer func() {
		if !returned {
			w.abort()
		}
	}()
	defer w.r.watchReturn()()
	err := loop(w.Context(), w)
	returned = true
	if err == nil {
		if err = w.Complete(); err != nil {
			if stop := w.Stop(); stop != nil {
				return stop
			}
		}
		return err
	}
	return w.explain(err)
}

// returnPatience is how long a loop may go on after its run has ended before the log says so.
const returnPatience = 30 * time.Second

// watchReturn has the log say that the loop does not return although its run has ended, until the returned function is
// called. With PollOnly nobody does.
func (r *run) watchReturn() (returned func()) {
	if r.Tree.Inline {
		return func() {}
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(r.Inner(), func() {
		defer close(stopped)
		timer := clocks.AfterFunc(r.Tree.Clock, returnPatience, r.reportLoop)
		<-done
		timer.Stop()
	})
	return func() {
		close(done)
		if !stop() {
			<-stopped
		}
	}
}

func (r *run) reportLoop() {
	bounded.Quietly(func() {
		r.log().Warn("the loop of a run that has ended does not return: look for a call in it that does not heed the run's "+
			"context, such as a channel, a lock, or a request without it; SIGQUIT prints where each goroutine stands",
			"run", r.Node.Run, "ended", returnPatience, "cause", context.Cause(r.Inner()))
	})
}

// explain adds to the loop's error why the run has ended, if it has and if the error does not say so.
func (w *Watchdog) explain(err error) error {
	_ = w.r.poll() // a run that is late has ended
	cause := context.Cause(w.Context())
	switch {
	case cause == nil, errors.Is(err, cause):
		return err
	case err == context.Canceled: //nolint:errorlint // a wrapped one says where the loop was
		return cause
	case errors.Is(cause, ErrComplete): // so that a host that asks for that does not miss the loop's error
		return err
	}
	return errors.Join(cause, err)
}

// abort records that the loop did not return, and closes. Nobody can be returned an error.
func (w *Watchdog) abort() {
	err := w.Interrupt(loopPanicked)
	if errors.Is(err, ErrEnded) {
		err = nil
	}
	if err = errors.Join(err, w.Close()); err != nil {
		bounded.Quietly(func() {
			w.r.log().Error("watchdog could not record that a loop panicked", "run", w.r.Node.Run, "error", err)
		})
	}
}
