// Package bounded makes calls of code that may hang, panic or end its goroutine: of a store, a disk, a hook or a log of
// the host's. Whoever makes them can give up waiting, and what is left to do is done.
//
// It cannot stop such a call. What is left behind keeps its goroutine until it returns, and what it says then is
// dropped.
package bounded

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// The errors of [Do], besides those of the call.
var (
	// ErrLeftBehind says that the call had not returned when the wait ended.
	ErrLeftBehind = errors.New("it has not returned and is left behind")
	// ErrExited says that the call ended its goroutine, with runtime.Goexit.
	ErrExited = errors.New("it ended its goroutine")
)

// A PanicError says that the call panicked. Its text has the type of the value only, because what the value says may be
// a secret.
type PanicError struct {
	Value any
	Stack []byte
}

// Error names the type of the value.
func (e *PanicError) Error() string { return fmt.Sprintf("it panicked with a %T", e.Value) }

type result[T any] struct {
	value T
	err   error
}

// Do makes the call on a goroutine of its own and returns what it returned: a panic as a [*PanicError], runtime.Goexit
// as [ErrExited]. When wait ends first, it returns [ErrLeftBehind] with the wait's cause at once. The wait is not the
// call's context: a caller that gives a call time to return after its context has ended passes two.
func Do[T any](wait context.Context, call func() (T, error)) (T, error) {
	done := make(chan result[T], 1)
	go func() {
		r := result[T]{err: ErrExited}
		defer func() {
			if p := recover(); p != nil {
				r.err = &PanicError{p, debug.Stack()}
			}
			done <- r
		}()
		r.value, r.err = call()
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-wait.Done():
	}
	select {
	case r := <-done: // both were ready
		return r.value, r.err
	default:
		var none T
		return none, fmt.Errorf("%w: %w", ErrLeftBehind, context.Cause(wait))
	}
}

// Here makes the call on the caller's goroutine, which waits for it as long as it takes. Panics are errors as with
// [Do].
func Here[T any](call func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return call()
}
