package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A BoundLayer is what ended a call that [Bound] guarded.
type BoundLayer string

// The layers.
const (
	// LayerNone says that nothing did: the call returned in time, or was refused.
	LayerNone BoundLayer = "none"
	// LayerSoft says that the limit ended the call's context, and that the call returned within the grace.
	LayerSoft BoundLayer = "soft"
	// LayerHard says that it did not, and was abandoned.
	LayerHard BoundLayer = "hard"
	// LayerOutside says that the context in which the call was made ended before the limit; [Outcome].Abandoned says whether the call
	// returned within the grace.
	LayerOutside BoundLayer = "outside"
)

// An Outcome is what became of a call. It is a plain value and the caller's.
type Outcome[T any] struct {
	// Result and ResultErr are what the call returned, also when it did so after the limit, for the host to judge.
	// Both are zero where it did not return; ResultErr is then [ErrCallExited] if it ended its goroutine.
	Result    T
	ResultErr error
	// Err is nil exactly where the call returned in time and without an error. Otherwise it is: the error that the call returned
	// in time, as it is; an [*Overrun], which wraps ResultErr; for an outside cancel an error that wraps the cause, the context's
	// error and ResultErr; or, for a call that was not begun, one that wraps [ErrInvalid] or a [*KeyInUse], or one of those above.
	Err error
	// Layer is what ended the call.
	Layer BoundLayer
	// Abandoned says that the call had not returned when its grace was over. It may still run.
	Abandoned bool
	// Elapsed is how long the call took; of an abandoned one, how long the caller waited. It is 0 for a call that was not begun.
	Elapsed time.Duration
	// Limit and Grace are those that were in force; see [Overrun].Run for a limit that was a run's.
	Limit, Grace time.Duration
	// Note is the last note of the run in the call's context, see [Watchdog.Note]; empty where there is none.
	Note string
}

// Overran reports whether the call took more than its limit. Its result is kept if there is one.
func (o Outcome[T]) Overran() bool { return o.Layer == LayerSoft || o.Layer == LayerHard }

// verdict is the error of an outcome.
func (f *flight) verdict(how ending, resultErr error, note string) error {
	switch how.layer {
	case LayerNone:
		return resultErr
	case LayerOutside:
		return f.cutShort(how, resultErr)
	}
	return &Overrun{
		Key: f.call.Key, Run: f.run, Layer: how.layer, Limit: f.call.Limit, Grace: f.call.Grace,
		Elapsed: how.elapsed, Note: note, Err: resultErr,
	}
}

// cutShort is the error of a call that was cancelled from outside.
func (f *flight) cutShort(how ending, resultErr error) error {
	cause := outsideCause(f.Context)
	switch {
	case how.abandoned:
		return fmt.Errorf("%s was abandoned after %v, a grace of %v after it was cancelled from outside: %w",
			f.name(), how.elapsed, f.call.Grace, cause)
	case resultErr == nil || errors.Is(cause, resultErr):
		return fmt.Errorf("%s was cancelled from outside and ended after %v: %w", f.name(), how.elapsed, cause)
	}
	return fmt.Errorf("%s was cancelled from outside and ended after %v with an error (%w): %w", f.name(), how.elapsed, resultErr, cause)
}

// outsideCause is why a context has ended, which errors.Is finds the context's own error in, too.
func outsideCause(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if errors.Is(cause, err) {
		return cause
	}
	return &causedEnd{cause, err}
}

// A causedEnd is the end of a context for a cause that does not say that it is one.
type causedEnd struct{ cause, err error }

// Error is the text of the cause.
func (e *causedEnd) Error() string { return e.cause.Error() }

// Unwrap returns the cause and the context's error.
func (e *causedEnd) Unwrap() []error { return []error{e.cause, e.err} }
