package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// Run checks every rule of [watchdog.EventStore], each in a subtest. It skips the rules of
// [watchdog.TransactionalStore] and [watchdog.FeedStore] if the store does not implement them. It calls open once per
// rule. open must return an empty store that nothing else uses; Run closes it afterwards if it is an [io.Closer]. Rules
// run one after the other, but some call the store from many goroutines.
func Run(t *testing.T, open func(t *testing.T) watchdog.EventStore) {
	t.Helper()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			err := r.checkOn(t.Context(), open(t))
			if errors.Is(err, errOptional) {
				t.Skip(err)
			}
			r.report(t, err)
		})
	}
}

// Test checks the rules of [Run] without a testing.T. It returns nil, or one error that joins a [*Violation] for each
// broken rule. It leaves out the rules that Run skips.
func Test(open func() (watchdog.EventStore, error)) error {
	var violations []error
	for _, r := range rules() {
		store, err := open()
		if err != nil {
			return fmt.Errorf("open a store: %w", err)
		}
		if err := r.checkOn(context.Background(), store); err != nil && !errors.Is(err, errOptional) {
			violations = append(violations, r.violation(err))
		}
	}
	return errors.Join(violations...)
}

// A Violation reports that a store breaks a rule. [Test] and [TestDurable] return it.
type Violation struct {
	// Rule is the name of the rule, a sentence. [Run] has a subtest of the same name.
	Rule string
	// Why says what goes wrong for a guard or its host if a store breaks the rule.
	Why string
	// Err says what the store did.
	Err error
}

// Error returns the rule, what the store did and why that matters.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %v\n\twhy it matters: %s", v.Rule, v.Err, v.Why)
}

// Unwrap returns Err.
func (v *Violation) Unwrap() error { return v.Err }

// A rule is one promise of the contract. A store with one defect breaks one rule: each check looks only at what its own
// rule promises, and the tests of this package verify that.
type rule struct {
	name, why string
	check     func(ctx context.Context, store watchdog.EventStore) error
}

func rules() []rule {
	var all []rule
	for _, some := range [][]rule{
		fieldRules, refusalRules, batchRules, identityRules, orderRules, timeRules,
		aggregateRules, payloadRules, contextRules, ownershipRules, concurrencyRules,
		selectionRules, transactionRules, layerRules, followRules,
	} {
		all = append(all, some...)
	}
	return all
}

// checkOn runs the check and closes the store.
func (r rule) checkOn(ctx context.Context, store watchdog.EventStore) error {
	return contract.Check(ctx, checkTimeout, store, func(ctx context.Context) error { return r.check(ctx, store) })
}

func (r rule) violation(err error) *Violation { return &Violation{Rule: r.name, Why: r.why, Err: err} }

func (r rule) report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%v\nwhy it matters: %s", err, r.why)
	}
}

// checkTimeout limits a check. Only a store that hangs, or a very busy machine, needs it.
var checkTimeout = time.Minute
