package watchdog

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/internal/bounded"
)

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
// A panic in loop passes through, as does [runtime.Goexit]. Before that the run ends, with an [EventInterrupt] of the
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
	if w.Context().Err() != nil {
		return fmt.Errorf("do the work of run %s: %w", w.r.Node.Run, w.r.errEnded())
	}
	returned := false
	defer func() {
		if !returned {
			w.abort()
		}
	}()
	err := loop(w.Context(), w)
	returned = true
	if err == nil {
		return w.finish()
	}
	return w.explain(err)
}

// finish completes the run, or returns why it is not complete.
func (w *Watchdog) finish() error {
	err := w.Complete()
	if err == nil {
		return nil
	}
	if stop := w.Stop(); stop != nil {
		return stop
	}
	return err
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
