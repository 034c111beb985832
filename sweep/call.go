package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lateness is how long a call has to return after its context has ended, before it is left behind.
const lateness = time.Second

// errExited is what a call comes to that ends its goroutine.
var errExited = errors.New("it ended its goroutine")

type result[T any] struct {
	value T
	err   error
}

// bounded makes a call that hangs or panics an error. One that does not return is left behind, with what it may still do.
func bounded[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan result[T], 1)
	go func() {
		r := result[T]{err: errExited}
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("it panicked with a %T", p) // what it says may be a secret
			}
			done <- r
		}()
		r.value, r.err = call(ctx)
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	late := time.NewTimer(lateness)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		var none T
		return none, fmt.Errorf("it has not returned and is left behind: %w", context.Cause(ctx))
	}
}

// ask makes a call to the host, which is not ended by a stop.
func (s *Sweeper) ask(ctx context.Context, call func(context.Context) error) error {
	_, err := bounded(context.WithoutCancel(ctx), s.cfg.StopTimeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}
