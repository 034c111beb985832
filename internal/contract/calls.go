package contract

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
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

// A failure carries the error of a check from where it was found to Catch.
type failure struct{ err error }

// Fail ends a check with an error, from however deep in it. Only Catch may run the check, in the same goroutine.
func Fail(err error) { panic(failure{err}) }

// Must fails if a call did, which was doing something.
func Must(err error, doing string, args ...any) {
	if err != nil {
		Fail(fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err))
	}
}

// Require fails, with what it found, if a condition does not hold.
func Require(holds bool, found string, args ...any) {
	if !holds {
		Fail(fmt.Errorf(found, args...))
	}
}

// Part runs a part of a check, which it names if that fails.
func Part(name string, check func()) { Must(Catch(check), "%s", name) }

// Catch runs a check and returns the error with which Fail ended it, or nil. It does not recover from other panics.
func Catch(check func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	check()
	return nil
}

// Fails runs a step that must fail, with the wanted error if there is one.
func Fails(what string, want error, step func()) {
	err := Catch(step)
	if errors.Is(err, errNotCheckable) {
		Fail(err)
	}
	Require(err != nil, "%s: the call returned nil, want an error", what)
	Require(want == nil || errors.Is(err, want), "%s: the error is not the wanted one, %v: %w", what, want, err)
}

// Decode decodes a JSON text. What is equal in it, whatever the order of keys and the notation of numbers, is deeply
// equal.
func Decode(text json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a float is not exact
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return inOneNotation(value), nil
}

// SameJSON reports whether two JSON texts are equal. Texts that are no JSON are if their bytes are.
func SameJSON(a, b json.RawMessage) bool {
	one, errOne := Decode(a)
	other, errOther := Decode(b)
	if errOne != nil || errOther != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(one, other)
}

// inOneNotation writes the numbers in a decoded value as fractions.
func inOneNotation(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = inOneNotation(value[key])
		}
	case []any:
		for i := range value {
			value[i] = inOneNotation(value[i])
		}
	case json.Number:
		if fraction, ok := new(big.Rat).SetString(value.String()); ok {
			return json.Number(fraction.RatString())
		}
	}
	return value
}
