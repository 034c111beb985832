package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

// errNotCheckable is the error of a rule that needs more than the store has.
var errNotCheckable = errors.New("the rule cannot be checked")

// A rule is one promise of the contract. A store with one defect breaks one rule: each check looks only at what its
// own rule promises, and the tests of this package verify that.
type rule struct {
	name, why string
	check     func(e *env)
}

// checkTimeout limits a check. Only a store that hangs, or a very busy machine, needs it.
var checkTimeout = time.Minute

// checkOn runs the check and closes the store.
func (r rule) checkOn(ctx context.Context, store session.Store) error {
	return contract.Check(ctx, checkTimeout, store, func(ctx context.Context) error {
		return contract.Catch(func() { r.check(&env{ctx, store}) })
	})
}

// An env is what a rule is checked in: an empty store. The functions of this package that have one do a step of a check
// and look at what came of it. A step that fails ends the check, and the rule is broken.
type env struct {
	ctx   context.Context
	store session.Store
}

// must fails if a call did, which was doing something.
func must(err error, doing string, args ...any) {
	if err != nil {
		contract.Fail(fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err))
	}
}

// require fails, with what it found, if a condition does not hold.
func require(holds bool, found string, args ...any) {
	if !holds {
		contract.Fail(fmt.Errorf(found, args...))
	}
}

// part runs a part of a check, which it names if that fails.
func part(name string, check func()) { must(contract.Catch(check), "%s", name) }

// atOnce runs steps in as many goroutines as there are callers.
func atOnce(callers int, step func(caller int)) {
	must(contract.AtOnce(callers, func(caller int) error {
		return contract.Catch(func() { step(caller) })
	}), "of %d at once", callers)
}

// optional returns the store as one that has more methods, or skips the rule.
func optional[T any](e *env) T {
	store, ok := e.store.(T)
	require(ok, "%w: the store is not a %v", errNotCheckable, reflect.TypeFor[T]())
	return store
}
