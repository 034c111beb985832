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
	"time"
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
		defer func() { done <- r }()
		r.value, r.err = Here(call)
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
	if p := Guard(func() { value, err = call() }); p != nil {
		err = p
	}
	return value, err
}

// Guard makes a call of the host's on the caller's goroutine, and returns its panic, nil for none.
func Guard(call func()) (p *PanicError) {
	defer func() {
		if value := recover(); value != nil {
			p = &PanicError{value, debug.Stack()}
		}
	}()
	call()
	return nil
}

// Quietly makes a call of the host's log. If that panics there is nobody to tell, and the process must not end for it.
func Quietly(log func()) { _ = Guard(log) }

// Each makes the call for every element, also if one of them ends this goroutine.
func Each[T any](all []T, call func(T)) {
	if len(all) == 0 {
		return
	}
	defer Each(all[1:], call)
	call(all[0])
}

// Aside makes a call that may block, or end its goroutine, on another one. It returns a channel that is closed when the
// call has ended.
func Aside(call func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	return done
}

// Lateness is how long a call has to return after its context ended, before [Within] and [Until] give up waiting for
// it.
const Lateness = time.Second

// Within makes a call whose context ends after limit, as [Do] does, and gives up waiting for it [Lateness] after its
// context has ended.
func Within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return Until(ctx, call)
}

// Until is Within for a call that goes on until its context ends.
func Until[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	wait, stop := endLater(ctx, Lateness)
	defer stop()
	return Do(wait, func() (T, error) { return call(ctx) })
}

// endLater returns a context that ends a delay after ctx did, with the cause of ctx.
func endLater(ctx context.Context, delay time.Duration) (later context.Context, stop func()) {
	later, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unregister := context.AfterFunc(ctx, func() {
		time.AfterFunc(delay, func() { end(context.Cause(ctx)) })
	})
	return later, func() {
		unregister()
		end(nil)
	}
}

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
