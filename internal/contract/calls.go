package contract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// AtOnce runs the call in as many goroutines as there are callers, which start together. It returns one of their
// errors.
func AtOnce(callers int, call func(caller int) error) error {
	var all sync.WaitGroup
	start, errs := make(chan struct{}), make([]error, callers)
	for caller := range callers {
		all.Go(func() {
			<-start
			errs[caller] = call(caller)
		})
	}
	close(start)
	all.Wait()
	return cmp.Or(errs...)
}

// Each runs a check for each value and joins the errors.
func Each[T any](values []T, check func(T) error) error {
	var errs []error
	for _, value := range values {
		errs = append(errs, check(value))
	}
	return errors.Join(errs...)
}

// WithDoneContexts runs the call with a cancelled context, and with one whose deadline has passed. It joins the errors.
func WithDoneContexts(ctx context.Context, call func(done context.Context) error) error {
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	expired, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	return errors.Join(call(cancelled), call(expired))
}

// Shorten prints names for an error, but at most the first twenty.
func Shorten(names []string) string {
	const limit = 20
	if len(names) <= limit {
		return fmt.Sprintf("%q", names)
	}
	return fmt.Sprintf("%q and %d more", names[:limit], len(names)-limit)
}
