package contract

import (
	"errors"
	"fmt"
)

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
