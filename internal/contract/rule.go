// Package contract is what eventtest and sessiontest share: how rules are written, and checked against a store.
//
// It contains no rule.
package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"
	"time"
)

// A Rule is one promise of a contract. A store with one defect breaks one rule: each check looks only at what its own
// rule promises, and the tests of the suites verify that. All runs share a check, also those at the same time: it must
// not change what it closes over, nor give it to a store that might.
type Rule[S any] = struct {
	Name, Why string
	Check     func(e *Env[S])
}

// An Env is what a rule is checked in: an empty store. What does a step of a check has one, and looks at what came of
// the step. A step that fails ends the check, and the rule is broken.
type Env[S any] struct {
	Ctx   context.Context
	Store S
}

// Timeout limits a check. Only a store that hangs needs it: twenty rounds of eight callers take a starved machine a
// minute.
var Timeout = 3 * time.Minute

// Names returns the names of rules.
func Names[S any](rules []Rule[S]) (names []string) {
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return names
}

// Run checks each rule in a subtest, on what open returns.
func Run[S any](t *testing.T, rules []Rule[S], open func(t *testing.T) S) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.Name, func(t *testing.T) {
			err := Check(t.Context(), r, open(t))
			switch {
			case errors.Is(err, errNotCheckable):
				t.Skip(err)
			case err != nil:
				t.Errorf("%v\nwhy it matters: %s", err, r.Why)
			}
		})
	}
}

// Test checks each rule on what open returns, and joins what is broken.
func Test[S any](rules []Rule[S], open func() (S, error), broken func(name, why string, err error) error) error {
	var violations []error
	for _, r := range rules {
		store, err := open()
		if err != nil {
			return fmt.Errorf("open a store: %w", err)
		}
		if err := Check(context.Background(), r, store); err != nil && !errors.Is(err, errNotCheckable) {
			violations = append(violations, broken(r.Name, r.Why, err))
		}
	}
	return errors.Join(violations...)
}

// Check checks a rule on a store that nobody else uses, and then closes the store if it is an [io.Closer]. After a
// timeout it does not close the store, because Close would wait for the call that hangs.
func Check[S any](ctx context.Context, r Rule[S], store S) error {
	err := Within(ctx, Timeout, func(ctx context.Context) error {
		return Catch(func() { r.Check(&Env[S]{ctx, store}) })
	})
	if errors.Is(err, errHangs) {
		return err
	}
	return errors.Join(err, Close(store))
}

// errNotCheckable is the error of a rule that needs more than the store has.
var errNotCheckable = errors.New("the rule cannot be checked")

// NotCheckable skips the rule, and says why.
func NotCheckable(why string, args ...any) {
	Fail(fmt.Errorf("%w: %w", errNotCheckable, fmt.Errorf(why, args...)))
}

// Optional returns the store as one that has more methods, or skips the rule.
func Optional[T, S any](e *Env[S]) T {
	store, ok := any(e.Store).(T)
	if !ok {
		NotCheckable("the store is not a %v", reflect.TypeFor[T]())
	}
	return store
}

var errHangs = errors.New("a call did not return")

// Within runs a check whose calls may hang. It cancels the check's context after the timeout. If the check does not
// return then, Within returns an error and leaves the check's goroutine behind.
func Within(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		err := errors.New("the check was ended by runtime.Goexit")
		defer func() { result <- err }()
		err = check(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-time.After(timeout + timeout/10):
		return fmt.Errorf("%w within %v, although its context had ended", errHangs, timeout)
	}
}

// Close closes a store if it is an [io.Closer].
func Close(store any) error {
	closer, ok := store.(io.Closer)
	if !ok {
		return nil
	}
	if err := closer.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
