package contract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
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

// StepsAtOnce is AtOnce for the steps of a check.
func StepsAtOnce(callers int, step func(caller int)) {
	Must(AtOnce(callers, func(caller int) error {
		return Catch(func() { step(caller) })
	}), "of %d at once", callers)
}

// Each does a step for each value, also after one has failed.
func Each[T any](values []T, step func(T)) {
	var errs []error
	for _, value := range values {
		errs = append(errs, Catch(func() { step(value) }))
	}
	if err := errors.Join(errs...); err != nil {
		Fail(err)
	}
}

// WithDoneContexts makes a call with a cancelled context, and with one whose deadline has passed. It must return the
// error of the context.
func (e *Env[S]) WithDoneContexts(what string, call func(done *Env[S])) {
	cancelled, cancel := context.WithCancel(e.Ctx)
	cancel()
	expired, cancel := context.WithDeadline(e.Ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, done := range []context.Context{cancelled, expired} {
		Fails(what+" with a done context", done.Err(), func() { call(&Env[S]{done, e.Store}) })
	}
}

// Shorten prints names for an error, but at most the first twenty.
func Shorten(names []string) string {
	const limit = 20
	if len(names) <= limit {
		return fmt.Sprintf("%q", names)
	}
	return fmt.Sprintf("%q and %d more", names[:limit], len(names)-limit)
}

// While runs a check while listen runs, once that is ready. It returns what listen returned when its context had ended.
func (e *Env[S]) While(listen func(ctx context.Context, ready func()) error, check func()) (ending error) {
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() {
		pprof.SetGoroutineLabels(ctx)
		ended <- listen(ctx, func() { close(ready) })
	}()
	var err error
	select {
	case <-ready:
		err = Catch(check)
	case ending = <-ended:
		Fail(errors.Join(errors.New("it ended before it was ready"), ending))
	case <-e.Ctx.Done():
		err = errors.New("it never became ready")
	}
	cancel()
	ending = <-ended // if it does not end, neither does the check: see Within
	Must(err, "while the store is listened to")
	return ending
}
