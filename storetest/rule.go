package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// A rule is one promise of the contract. A store with one defect breaks one rule: each check looks only at what its own
// rule promises, and the tests of this package verify that.
type rule[S any] struct {
	name, why string
	check     check[S]
}

// A check returns what a store does wrong. It may be made of steps, which are checks too. All runs share it, also those
// at the same time: it must not change the events in it, nor give them to a store that might.
type check[S any] func(ctx context.Context, store S) error

type (
	eventRule = rule[watchdog.EventStore]
	step      = check[watchdog.EventStore]
)

// checkTimeout limits a check. Only a store that hangs, or a very busy machine, needs it.
var checkTimeout = time.Minute

// checkOn runs the check and closes the store.
func (r rule[S]) checkOn(ctx context.Context, store S) error {
	return contract.Check(ctx, checkTimeout, store, func(ctx context.Context) error { return r.check(ctx, store) })
}

// inTurn makes the steps until one fails.
func inTurn[S any](steps ...check[S]) check[S] {
	return func(ctx context.Context, store S) error {
		for _, step := range steps {
			if err := step(ctx, store); err != nil {
				return err
			}
		}
		return nil
	}
}

// forEach makes a step for each value, also after one has failed.
func forEach[S, T any](values []T, of func(T) check[S]) check[S] {
	return func(ctx context.Context, store S) error {
		return contract.Each(values, func(value T) error { return of(value)(ctx, store) })
	}
}

// fails makes a call that must return an error, the wanted one if there is one.
func fails[S any](what string, want error, call check[S]) check[S] {
	return func(ctx context.Context, store S) error {
		err := call(ctx, store)
		switch {
		case err == nil:
			return fmt.Errorf("%s: the call returned nil, want an error", what)
		case want != nil && !errors.Is(err, want):
			return fmt.Errorf("%s: the error is not the wanted one, %v: %w", what, want.Error(), err)
		}
		return nil
	}
}

// withDoneContexts makes a call with contexts that are done. It must return the context's error, and then the steps
// must find that it did nothing.
func withDoneContexts[S any](call check[S], then ...check[S]) check[S] {
	return func(ctx context.Context, store S) error {
		return contract.WithDoneContexts(ctx, func(done context.Context) error {
			if err := fails("done context", done.Err(), call)(done, store); err != nil {
				return err
			}
			return inTurn(then...)(ctx, store)
		})
	}
}

// equal compares what a store said with what it should have said.
func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %+v, want %+v", what, got, want)
	}
	return nil
}

// sameNames is equal for IDs and other names, in their order.
func sameNames(what string, got, want []string) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s: got %s, want %s", what, contract.Shorten(got), contract.Shorten(want))
	}
	return nil
}

// errOptional is the error of a rule about an interface that the store does not implement.
var errOptional = errors.New("the rule is about an optional interface")

// ifIs makes the check of a store only if that has an optional interface.
func ifIs[T any](check step) step {
	return func(ctx context.Context, store watchdog.EventStore) error {
		if _, ok := store.(T); !ok {
			return fmt.Errorf("%w: the store is not a %v", errOptional, reflect.TypeFor[T]())
		}
		return check(ctx, store)
	}
}

// about returns the rules, which are about an optional interface.
func about[T any](rules ...[]eventRule) []eventRule {
	all := slices.Concat(rules...)
	for i := range all {
		all[i].check = ifIs[T](all[i].check)
	}
	return all
}
