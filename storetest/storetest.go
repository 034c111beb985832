package storetest

import (
	"errors"
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

// An opener opens stores in one place.
type opener = func() (watchdog.EventStore, error)

var durableRules = []contract.Rule[opener]{
	{"events are stored when the store is opened again",
		"after a crash or a restart only the event store knows that a run was cancelled, and why",
		inTurn(opened(put(numbered("a", 1))), opened(holds("a")))},
	{"an ID stored before the store was opened again is still taken",
		"a restarted process fires the same cancel again: it must find the stored one and not add a second",
		inTurn(opened(put(numbered("a", 1))), opened(inTurn(put(anotherA), keeps(numbered("a", 1)))))},
	{"stores open at once see each other's events",
		"a second process that attaches to a run must see the cancel of the first", openedTwice(func(one, other *eventEnv) {
			put(numbered("a", 1))(one)
			holds("a")(other)
			put(numbered("b", 2))(other)
			holds("a", "b")(one)
		})},
	{"stores open at once keep one event of an ID",
		"two processes that guard one run may fire at the same moment: a window has one cancel event, whoever wins",
		openedTwice(func(one, other *eventEnv) { raceForOneID(mostRounds, one, other) })},
	{"transactions of stores open at once do not overlap",
		"two processes that both find no cancel would both decide one: a lock within each process is not enough",
		openedTwice(func(one, other *eventEnv) {
			contract.Optional[watchdog.TransactionalStore](one)
			_, ok := other.Store.(watchdog.TransactionalStore)
			contract.Require(ok, "one open returned a %T, and another a %T", one.Store, other.Store)
			overlap(one, other)
		})},
}

// opened opens a store, makes the step and closes it.
func opened(use eventStep) step[opener] {
	return func(e *contract.Env[opener]) {
		store, err := e.Store()
		contract.Must(err, "open the store")
		err = contract.Catch(func() { use(&eventEnv{Ctx: e.Ctx, Store: store}) })
		if err := errors.Join(err, contract.Close(store)); err != nil {
			contract.Fail(err)
		}
	}
}

func openedTwice(use func(one, other *eventEnv)) step[opener] {
	return func(e *contract.Env[opener]) {
		opened(func(one *eventEnv) { opened(func(other *eventEnv) { use(one, other) })(e) })(e)
	}
}
