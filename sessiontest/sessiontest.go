package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/storetest"
)

// A Putter is a store under test that can be asked to write as another program would.
type Putter interface {
	// Put writes rows as they are, in one transaction.
	Put(ctx context.Context, rows ...session.Session) error
	// Spoil makes a row unreadable, for instance by a last event at a time that is none.
	Spoil(ctx context.Context, runID string) error
}

// Run checks store after store against every rule of [session.Store], each rule in a subtest; those of [session.Listener] and those that need a [Putter] only where the store is
// one. It calls open once per rule, for an empty store that the rule has for itself, and closes the store afterwards if it is an [io.Closer]. Rules run one after the
// other; within some of them the store is called from many goroutines.
func Run(t *testing.T, open func(t *testing.T) session.Store) {
	t.Helper()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			err := r.checkOn(t.Context(), open(t))
			switch {
			case errors.Is(err, errNotCheckable):
				t.Skip(err)
			case err != nil:
				t.Errorf("%v\nwhy it matters: %s", err, r.why)
			}
		})
	}
}

// Test checks the rules of [Run] without a test. It returns nil, or one error that joins a [*storetest.Violation] for each rule that does not hold.
func Test(open func() (session.Store, error)) error {
	var violations []error
	for _, r := range rules() {
		store, err := open()
		if err != nil {
			return fmt.Errorf("open a store: %w", err)
		}
		if err := r.checkOn(context.Background(), store); err != nil && !errors.Is(err, errNotCheckable) {
			violations = append(violations, &storetest.Violation{Rule: r.name, Why: r.why, Err: err})
		}
	}
	return errors.Join(violations...)
}

// errCannot is a rule's answer to a store that it cannot be checked with.
var errNotCheckable = errors.New("the rule cannot be checked here")

// A rule is one promise of the contract. Rules are cut so that a store with one flaw breaks one rule: a check looks only at what its own rule promises, and the tests
// hold it to that.
type rule struct {
	name, why string
	check     func(ctx context.Context, store session.Store) error
}

func rules() []rule {
	var all []rule
	for _, some := range [][]rule{
		attachRules, rowRules, freshRules, endRules, stalledRules, pageRules, cancelRules, guardRules, endedRules, historyRules, listenRules, contextRules,
	} {
		all = append(all, some...)
	}
	return all
}

// patience bounds a check. Only a store that hangs, or a machine that is far too busy, needs it.
var checkTimeout = time.Minute

// on runs the check against a store that nobody else uses, and closes the store. A check whose calls hang is abandoned, and its goroutine stays behind.
func (r rule) checkOn(ctx context.Context, store session.Store) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		err := errors.New("the check was ended by runtime.Goexit")
		defer func() { result <- err }()
		err = r.check(ctx, store)
	}()
	select {
	case err := <-result:
		return errors.Join(err, closeStore(store))
	case <-time.After(checkTimeout + checkTimeout/10):
		return fmt.Errorf("a call did not return within %v, although its context had ended", checkTimeout)
	}
}

func closeStore(store session.Store) error {
	closer, ok := store.(io.Closer)
	if !ok {
		return nil
	}
	if err := closer.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
