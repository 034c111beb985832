package bound

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
)

// A LayerKind is what ended a call.
type LayerKind string

// The layers.
const (
	// LayerNone says that nothing did: the call returned in time, or was refused.
	LayerNone LayerKind = "none"
	// LayerSoft says that the limit ended the call's context, and that the call returned within the grace.
	LayerSoft LayerKind = "soft"
	// LayerHard says that it did not, and was abandoned.
	LayerHard LayerKind = "hard"
	// LayerOutside says that the context in which the call was made ended before the limit; [Outcome].Abandoned says
	// whether the call returned within the grace.
	LayerOutside LayerKind = "outside"
)

// An Outcome is what became of a call. It is a plain value and the caller's.
type Outcome[T any] struct {
	// Result and ResultErr are what the call returned, also when it did so after the limit, for the host to judge.
	// Both are zero where it did not return; ResultErr is then [ErrExited] if it ended its goroutine.
	Result    T
	ResultErr error
	// Err is nil only if the call returned in time and without an error. Otherwise it is the error that the call returned
	// in time, as it is; or an [*Overrun], which wraps ResultErr; or, after a cancel from outside, an error that wraps the
	// cause, the context's error and ResultErr. For a call that was not begun it wraps [watchdog.ErrInvalid] or a
	// [*KeyInUse], or is one of those above.
	Err error
	// Layer is what ended the call.
	Layer LayerKind
	// Abandoned says that the call had not returned when its grace was over. It may still run.
	Abandoned bool
	// Elapsed is how long the call took; of an abandoned one, how long the caller waited. It is 0 for a call that was not
	// begun.
	Elapsed time.Duration
	// Limit and Grace are those that were in force; see [Overrun].RunID for a limit that was a run's.
	Limit, Grace time.Duration
	// Note is the last thing that was noted in the call, see [Note]; else the last note of the run in its context, see
	// [watchdog.Watchdog.Note]; empty where there is none.
	Note string
}

// Overran reports whether the call took more than its limit. Its result is kept if there is one.
func (o Outcome[T]) Overran() bool { return o.Layer == LayerSoft || o.Layer == LayerHard }

// verdict is the error of an outcome.
func (i *invocation) verdict(how ending, resultErr error, note string) error {
	switch how.layer {
	case LayerNone:
		return resultErr
	case LayerOutside:
		return i.cutShort(how, resultErr)
	}
	return &Overrun{
		Key: i.call.Key, RunID: i.limitedBy, Layer: how.layer, Limit: i.call.Limit, Grace: i.call.Grace,
		Elapsed: how.elapsed, Note: note, Err: resultErr,
	}
}

// cutShort is the error of a call that was cancelled from outside.
func (i *invocation) cutShort(how ending, resultErr error) error {
	cause := bounded.Cause(i.Context)
	switch {
	case how.abandoned:
		return fmt.Errorf("%s was abandoned after %v, a grace of %v after it was cancelled from outside: %w",
			i.name(), how.elapsed, i.call.Grace, cause)
	case resultErr == nil || errors.Is(cause, resultErr):
		return fmt.Errorf("%s was cancelled from outside and ended after %v: %w", i.name(), how.elapsed, cause)
	}
	return fmt.Errorf("%s was cancelled from outside and ended after %v with an error (%w): %w", i.name(), how.elapsed,
		resultErr, cause)
}
