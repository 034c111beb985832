package bounded

import (
	"context"
	"errors"
)

// Cause is why a context has ended. errors.Is finds the context's own error in it, also where the cause does not wrap
// that.
func Cause(ctx context.Context) error {
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
