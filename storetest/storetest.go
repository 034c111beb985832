package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// Run checks every rule of [watchdog.EventStore], each in a subtest. It skips the rules of
// [watchdog.TransactionalStore] and [watchdog.FeedStore] if the store does not implement them. It calls open once per
// rule. open must return an empty store that nothing else uses; Run closes it afterwards if it is an [io.Closer]. Rules
// run one after the other, but some call the store from many goroutines.
func Run(t *testing.T, open func(t *testing.T) watchdog.EventStore) {
	t.Helper()
	contract.Run(t, eventRules(), open)
}

// Test checks the rules of [Run] without a testing.T. It returns nil, or one error that joins a [*Violation] for each
// broken rule. It leaves out the rules that Run skips.
func Test(open func() (watchdog.EventStore, error)) error {
	return contract.Test(eventRules(), open, violation)
}

func eventRules() []eventRule {
	return slices.Concat(fieldRules, appendRules, callerRules, selectionRules, transactionRules, feedRules)
}

// RunDurable checks a store that outlives its process, each rule in a subtest: a store that is opened again has the
// appended events, and stores that are open in one place at once share their events. It calls place once per rule.
// place must prepare an empty place, such as a folder, and return a function that opens a store there; RunDurable may
// call that function several times. It closes the stores if they are an [io.Closer]. It skips the rule of
// [watchdog.TransactionalStore] if the store does not implement it, and does not check the rules of [Run].
func RunDurable(t *testing.T, place func(t *testing.T) (open func() (watchdog.EventStore, error))) {
	t.Helper()
	contract.Run(t, durableRules, place)
}

// TestDurable checks the rules of [RunDurable] without a testing.T. It returns nil, or one error that joins a
// [*Violation] for each broken rule. It leaves out the rule that RunDurable skips.
func TestDurable(place func() (open func() (watchdog.EventStore, error))) error {
	return contract.Test(durableRules, func() (opener, error) { return place(), nil }, violation)
}

// RunSpend checks every rule of [watchdog.SpendStore], each in a subtest, as [Run] does for the rules of an
// [watchdog.EventStore]. It calls open once per rule. open must return a store that nothing is charged in and that
// nothing else uses; RunSpend closes it afterwards if it is an [io.Closer].
func RunSpend(t *testing.T, open func(t *testing.T) watchdog.SpendStore) {
	t.Helper()
	contract.Run(t, spendRules(), open)
}

// TestSpend checks the rules of [RunSpend] without a testing.T. It returns nil, or one error that joins a [*Violation]
// for each broken rule.
func TestSpend(open func() (watchdog.SpendStore, error)) error {
	return contract.Test(spendRules(), open, violation)
}

func spendRules() []spendRule {
	return slices.Concat(sliceRules, scopeRules)
}

// A Violation reports that a store breaks a rule. [Test], [TestDurable] and [TestSpend] return it.
type Violation struct {
	// Rule is the name of the rule, a sentence. [Run] has a subtest of the same name.
	Rule string
	// Why says what goes wrong for a guard or its host if a store breaks the rule.
	Why string
	// Err says what the store did.
	Err error
}

func violation(rule, why string, err error) error { return &Violation{rule, why, err} }

// Error returns the rule, what the store did and why that matters.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %v\n\twhy it matters: %s", v.Rule, v.Err, v.Why)
}

// Unwrap returns Err.
func (v *Violation) Unwrap() error { return v.Err }
