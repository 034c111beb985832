package storetest

import (
	"errors"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

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
