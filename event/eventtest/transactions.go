package eventtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var transactionRules = []eventRule{
	{"an exchange decides with what it selects, and what it decides is stored",
		"a watchdog decides from the stored events whether its window has ended already", inTurn(
			put(numbered("old", 0), numbered("b", 2), numbered("a", 1)),
			decidesFromFirst,
			holds("old", "a", "b", "c", "d"),
		)},
	{"exchanges are carried out in their order",
		"a run and its layers are recorded together: the second decision must see what the first one stored",
		inTurn(transacts(counting, counting), holds("count-0", "count-1"))},
	{"a transaction with an invalid event in a later exchange stores nothing, and returns ErrInvalid",
		"a cancel and the cancels of the layers are one transaction: with half of it a layer would run on", inTurn(
			put(numbered("before", 0)),
			transactsInvalid(event.ErrInvalid),
			holds("before"),
			put(numbered("first", 1)), // its ID is free
			holds("before", "first"),
		)},
	{"Kept is what is stored under the IDs that Decide returned",
		"the process that comes second must report the stop that the first one stored, not its own",
		inTurn(put(numbered("taken", 1), inAggregate(numbered("elsewhere", 2), "run-2")), keptIsStored)},
	{"transactions of one aggregate do not overlap",
		"two processes that both find no cancel would both decide one", func(e *eventEnv) {
			const deciders, each = 8, 20
			contract.StepsAtOnce(deciders, func(int) {
				for range each {
					transacts(counting)(e)
				}
			})
			holds(numberedTo(deciders * each)...)(e)
		}},
	{"a transaction with a done context stores nothing and returns the context's error",
		"a watchdog waits only for its record timeout: an event that was reported as not stored must not appear later",
		inTurn(put(numbered("before", 0)), withDoneContexts(transacts(always(numbered("late", 1)))), holds("before"))},
	{"a context that ends during a transaction leaves all of it or nothing",
		"a run whose layers are cancelled in part has no one reason", endsWhileTransacting},
}

// A decision is the Decide of an exchange.
type decision = func(selected []event.Event) []event.Event

// always decides the same whatever is stored.
func always(events ...event.Event) decision {
	return func([]event.Event) []event.Event { return copies(events) }
}

// counting decides an event named after the number of events before it.
func counting(selected []event.Event) []event.Event {
	n := len(selected)
	return []event.Event{numbered(fmt.Sprint("count-", n), n)}
}

// exchange returns an exchange with all events of the run.
func exchange(decide decision) *event.Exchange {
	return &event.Exchange{Selection: ofRun(event.Selection{Since: noon}), Decide: decide}
}

// transacts carries out exchanges with all events of the run, in one transaction.
func transacts(decisions ...decision) eventStep {
	return func(e *eventEnv) {
		exchanges := make([]*event.Exchange, len(decisions))
		for i, decide := range decisions {
			exchanges[i] = exchange(decide)
		}
		transact(e, exchanges...)
	}
}

func transact(e *eventEnv, exchanges ...*event.Exchange) {
	contract.Must(contract.Optional[event.TransactionalStore](e).Transact(e.Ctx, exchanges...), "transact")
}

// decidesFromFirst has an exchange select from the first second on.
func decidesFromFirst(e *eventEnv) {
	var saw []string
	x := exchange(func(selected []event.Event) []event.Event {
		saw = ids(selected)
		return []event.Event{numbered("d", 4), numbered("c", 3)}
	})
	x.Since = noon.Add(time.Second)
	transact(e, x)
	sameNames("decided with events", saw, []string{"a", "b"})
}

// transactsInvalid decides an invalid event in the second exchange.
func transactsInvalid(want error) eventStep {
	invalid := transacts(always(numbered("first", 1)), always(numbered("second", 2), numbered("", 3)))
	return fails("a transaction with an invalid event", want, invalid)
}

func keptIsStored(e *eventEnv) {
	fresh := numbered("fresh", 3)
	fresh.Timestamp = fresh.Timestamp.Add(999) // nanoseconds, which no store keeps
	x := exchange(always(fresh, numbered("elsewhere", 8), numbered("taken", 9), numbered("fresh", 10)))
	transact(e, x)
	in(func() {
		elsewhere := inAggregate(numbered("elsewhere", 2), "run-2")
		allSame(x.Kept, []event.Event{numbered("fresh", 3), elsewhere, numbered("taken", 1), numbered("fresh", 3)})
	}, "in Kept")
}

// endsWhileTransacting ends the context of a transaction while it decides.
func endsWhileTransacting(e *eventEnv) {
	contract.Optional[event.TransactionalStore](e)
	ctx, end := context.WithCancel(e.Ctx)
	defer end()
	err := contract.Catch(func() {
		transacts(always(numbered("first", 1)), func([]event.Event) []event.Event {
			end()
			return []event.Event{numbered("second", 2)}
		})(&eventEnv{Ctx: ctx, Store: e.Store})
	})
	put(numbered("after", 3))(e) // comes after what is still being written
	if stored := len(read(e)); err == nil || stored != 1 {
		holds("first", "second", "after")(e)
	}
}

// overlap checks several times that overlapping transactions decide with what the one before had stored.
func overlap(one, other *eventEnv) {
	const rounds = 5
	for round := range rounds {
		overlapOnce(one, other)
		holds(numberedTo(2*round + 2)...)(one)
	}
}

// overlapOnce has the first transaction wait until the second one decides. A store that has the second wait for the
// first makes that wait in vain, for a tenth of a second. A store may have an exchange decide more than once.
func overlapOnce(one, other *eventEnv) {
	const patience = 100 * time.Millisecond
	deciding, began := make(chan struct{}), make(chan struct{})
	reached, begin := sync.OnceFunc(func() { close(deciding) }), sync.OnceFunc(func() { close(began) })
	contract.StepsAtOnce(2, func(caller int) {
		if caller == 1 {
			<-began
			transacts(func(selected []event.Event) []event.Event {
				reached()
				return counting(selected)
			})(other)
			return
		}
		defer begin() // if the first fails before it decides
		transacts(func(selected []event.Event) []event.Event {
			begin()
			select {
			case <-deciding:
			case <-time.After(patience):
			}
			return counting(selected)
		})(one)
	})
}
