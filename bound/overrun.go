package bound

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// An Overrun says that a bounded call took longer than it may. It is the cause of the call's context from the limit on,
// and the error of its [Outcome], there with how it ended. It wraps [context.DeadlineExceeded] and
// [os.ErrDeadlineExceeded], and is a [net.Error], as every timeout of this module. It must not be changed.
type Overrun struct {
	// Key is that of the [Call].
	Key string
	// RunID is the ID of the run whose remaining time was the limit; empty where the limit was the call's own.
	RunID string
	// Layer is [LayerSoft], or [LayerHard] for a call that was abandoned.
	Layer LayerKind
	// Limit and Grace are those that were in force. Limit is 0 for a call that was not begun because its run had no time
	// left.
	Limit, Grace time.Duration
	// Elapsed is how long the call had taken: in the context's cause when its limit ended it, in the outcome's error when
	// it ended or was abandoned.
	Elapsed time.Duration
	// Note is the last thing that was noted by then, as in an [Outcome].
	Note string
	// Err is the error that the call returned after its limit, if it did.
	Err error
}

// Error says which call overran, which limit, and what it was last known to do; and what it returned, unless that is
// this overrun again.
func (o *Overrun) Error() string {
	text := nameCall(o.Key) + " " + o.what()
	if o.Note != "" {
		text += fmt.Sprintf("; last noted: %s", o.Note)
	}
	if o.Err != nil && !o.repeated() {
		text += fmt.Sprintf("; it returned: %v", o.Err)
	}
	return text
}

// repeated reports whether the call returned its own overrun, as the cause of its context: it says nothing new.
func (o *Overrun) repeated() bool {
	var cause *Overrun
	if !errors.As(o.Err, &cause) {
		return false
	}
	return cause == o || cause.Layer == LayerSoft && cause.Err == nil && cause.Key == o.Key && cause.RunID == o.RunID &&
		cause.Limit == o.Limit && cause.Grace == o.Grace && cause.Elapsed <= o.Elapsed
}

func (o *Overrun) what() string {
	switch {
	case o.Limit == 0:
		return "was not begun: run " + o.RunID + " has no time left; extend the run or resume it"
	case o.Layer == LayerHard:
		return fmt.Sprintf(
			"was abandoned after %v, a grace of %v after its limit of %s; it runs on until it heeds its context",
			o.Elapsed, o.Grace, o.limit())
	}
	return fmt.Sprintf("overran its limit of %s: %v elapsed", o.limit(), o.Elapsed)
}

func (o *Overrun) limit() string {
	if o.RunID == "" {
		return o.Limit.String()
	}
	return fmt.Sprintf("%v, all that run %s had left", o.Limit, o.RunID)
}

// Unwrap returns [context.DeadlineExceeded], [os.ErrDeadlineExceeded] and the error that the call returned.
func (o *Overrun) Unwrap() []error {
	wrapped := []error{context.DeadlineExceeded, os.ErrDeadlineExceeded}
	if o.Err != nil && o.Err != error(o) { //nolint:errorlint // the very value: it would be looked into for ever
		wrapped = append(wrapped, o.Err)
	}
	return wrapped
}

// Timeout reports true: an overrun is a timeout, as [net.Error] and os.IsTimeout have it.
func (o *Overrun) Timeout() bool { return true }

// Temporary reports true, as Timeout does. It makes the error a [net.Error].
func (o *Overrun) Temporary() bool { return true }
