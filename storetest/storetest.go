package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

// Run checks store after store against every rule of [watchdog.EventStore], each rule in a subtest. It calls open
// once per rule, for an empty store that the rule has for itself, and closes the store afterwards if it is an
// [io.Closer]. Rules run one after the other; within some of them the store is called from many goroutines.
func Run(t *testing.T, open func(t *testing.T) watchdog.EventStore) {
	t.Helper()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			r.report(t, r.checkOn(t.Context(), open(t)))
		})
	}
}

// Test checks the rules of [Run] without a test. It returns nil, or one error that joins a [*Violation] for each
// rule that does not hold.
func Test(open func() (watchdog.EventStore, error)) error {
	var violations []error
	for _, r := range rules() {
		store, err := open()
		if err != nil {
			return fmt.Errorf("open a store: %w", err)
		}
		if err := r.checkOn(context.Background(), store); err != nil {
			violations = append(violations, r.violation(err))
		}
	}
	return errors.Join(violations...)
}

// A Violation says that a store does not keep a rule. [Test] and [TestDurable] return it.
type Violation struct {
	// Rule is the rule's name, a sentence; [Run] has a subtest of that name.
	Rule string
	// Why says what goes wrong for a guard or its host when the rule does not hold.
	Why string
	// Err is what was seen.
	Err error
}

// Error names the rule, what was seen and why it matters.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %v\n\twhy it matters: %s", v.Rule, v.Err, v.Why)
}

// Unwrap returns what was seen.
func (v *Violation) Unwrap() error { return v.Err }

// A rule is one promise of the contract. Rules are cut so that a store with one flaw breaks one rule: a check looks
// only at what its own rule promises, and the tests hold it to that.
type rule struct {
	name, why string
	check     func(ctx context.Context, store watchdog.EventStore) error
}

func rules() []rule {
	var all []rule
	for _, some := range [][]rule{
		fieldRules, refusalRules, batchRules, identityRules, orderRules, timeRules,
		aggregateRules, payloadRules, contextRules, ownershipRules, concurrencyRules,
	} {
		all = append(all, some...)
	}
	return all
}

// on runs the check against a store that nobody else uses, and closes the store.
func (r rule) checkOn(ctx context.Context, store watchdog.EventStore) error {
	err := withTimeout(ctx, func(ctx context.Context) error { return r.check(ctx, store) })
	return errors.Join(err, closeStore(store))
}

func (r rule) violation(err error) *Violation { return &Violation{Rule: r.name, Why: r.why, Err: err} }

func (r rule) report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%v\nwhy it matters: %s", err, r.why)
	}
}

// patience bounds a check. Only a store that hangs, or a machine that is far too busy, needs it.
var checkTimeout = time.Minute

// inTime runs a check whose calls may hang: then the check is abandoned and its goroutine stays behind.
func withTimeout(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
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
	case <-time.After(checkTimeout + checkTimeout/10):
		return fmt.Errorf("a call did not return within %v, although its context had ended", checkTimeout)
	}
}

func closeStore(store watchdog.EventStore) error {
	closer, ok := store.(io.Closer)
	if !ok {
		return nil
	}
	if err := closer.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
