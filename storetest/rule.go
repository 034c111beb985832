package storetest

import (
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// A step is a part of the check of a rule, or all of it. It may be made of others.
type step[S any] = func(e *contract.Env[S])

type (
	eventRule = contract.Rule[watchdog.EventStore]
	eventEnv  = contract.Env[watchdog.EventStore]
	eventStep = step[watchdog.EventStore]
)

// inTurn makes the steps until one fails.
func inTurn[S any](steps ...step[S]) step[S] {
	return func(e *contract.Env[S]) {
		for _, step := range steps {
			step(e)
		}
	}
}

// forEach makes a step for each value, also after one has failed.
func forEach[S, T any](values []T, of func(T) step[S]) step[S] {
	return func(e *contract.Env[S]) { contract.Each(values, func(value T) { of(value)(e) }) }
}

// fails makes a step that must fail, with the wanted error if there is one.
func fails[S any](what string, want error, step step[S]) step[S] {
	return func(e *contract.Env[S]) { contract.Fails(what, want, func() { step(e) }) }
}

// withDoneContexts makes a step with contexts that are done. It must return the context's error.
func withDoneContexts[S any](step step[S]) step[S] {
	return func(e *contract.Env[S]) { e.WithDoneContexts("a call", step) }
}

// equal compares what a store said with what it should have said.
func equal[T comparable](what string, got, want T) {
	contract.Require(got == want, "%s: got %+v, want %+v", what, got, want)
}

// sameNames is equal for IDs and other names, in their order.
func sameNames(what string, got, want []string) {
	contract.Require(slices.Equal(got, want),
		"%s: got %s, want %s", what, contract.Shorten(got), contract.Shorten(want))
}

// in runs a part of a check, and says in what if that fails.
func in(check func(), what string, args ...any) { contract.Part(fmt.Sprintf(what, args...), check) }

// about returns the rules, which are about an optional interface.
func about[T any](rules ...[]eventRule) []eventRule {
	all := slices.Concat(rules...)
	for i, r := range all {
		all[i].Check = func(e *eventEnv) {
			contract.Optional[T](e)
			r.Check(e)
		}
	}
	return all
}
