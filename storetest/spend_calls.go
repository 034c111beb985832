package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var spendCallRules = []spendRule{
	{"an invalid slice is refused with ErrInvalid",
		"a caller tries again if the store fails, but not if the slice can never be charged: errors.Is tells them apart",
		forEach(sliceFlaws, func(f sliceFlaw) spendStep {
			return fails("take of a slice with "+f.name, watchdog.ErrInvalid, takes(with(asks("flawed", 5, 60), f.spoil)))
		})},
	{"a take with a done context charges nothing and returns the context's error",
		"a call that was refused because the store took too long is not made: it must not be charged later",
		inTurn(withDoneContexts(takes(asks("late", 5, 60))), uses(0))},
	{"a return with a done context gives nothing back and returns the context's error",
		"the caller no longer waits: it returns the slice again, with what is unused then",
		inTurn(gets(asks("a", 20, 60), 20, 20), withDoneContexts(givesBack("a", 5)), uses(20))},
	{"a slice that many take at once under one ID is charged once",
		"a call that is made again while the first one hangs meets it in the store",
		eachSpendRace(func(e *spendEnv, scope string) {
			slice := inScope(asks(scope, 3, 60), scope)
			contract.StepsAtOnce(callers, func(int) {
				atLast(e, takes(slice, fits, func(g watchdog.Grant) { equal("granted", g.Granted, slice.Least) }))
			})
			isCharged(slice, slice.Least)(e)
		})},
	{"what many give back at once of one slice is given back once",
		"a return that is made again while the first one hangs meets it in the store",
		eachSpendRace(func(e *spendEnv, scope string) {
			slice := inScope(asks(scope, 50, 60), scope)
			gets(slice, 50, 50)(e)
			contract.StepsAtOnce(callers, func(int) { atLast(e, givesBack(slice.ID, 2)) })
			isCharged(slice, requests(48))(e)
		})},
	{"many callers at once never exceed the limit, and nothing is lost",
		"parallel calls that each check and then charge overshoot by their number", eachSpendRace(crowds)},
}

// A sliceFlaw makes a valid slice invalid.
type sliceFlaw struct {
	name  string
	spoil func(*watchdog.Slice)
}

var sliceFlaws = []sliceFlaw{
	{"an empty ID", func(s *watchdog.Slice) { s.ID = "" }},
	{"an ID with a NUL", func(s *watchdog.Slice) { s.ID = "a\x00b" }},
	{"an ID that is too long", func(s *watchdog.Slice) { s.ID = strings.Repeat("x", watchdog.MaxEventID+1) }},
	{"an empty scope", func(s *watchdog.Slice) { s.Scope = "" }},
	{"a scope with a line break", func(s *watchdog.Slice) { s.Scope = "a\nb" }},
	{"a scope that is too long", func(s *watchdog.Slice) { s.Scope = strings.Repeat("é", watchdog.MaxAggregateID+1) }},
	{"a scope that is not UTF-8", func(s *watchdog.Slice) { s.Scope = "a\xff" }},
	{"a long currency", func(s *watchdog.Slice) { s.Currency = strings.Repeat("E", 17) }},
	{"a negative least", func(s *watchdog.Slice) { s.Least.Requests = -1 }},
	{"a negative limit", func(s *watchdog.Slice) { s.Limit.Turns = -1 }},
	{"an unknown period", func(s *watchdog.Slice) { s.Period = "week" }},
	{"an unknown zone", func(s *watchdog.Slice) { s.Zone = "Europe/Atlantis" }},
	{"the zone of the machine", func(s *watchdog.Slice) { s.Zone = "Local" }},
}

// eachSpendRace runs a race in a scope of its own, several times.
func eachSpendRace(race func(e *spendEnv, scope string)) spendStep {
	return func(e *spendEnv) {
		const fewest, most = 3, 20
		eachRound(fewest, most, func(round int) { race(e, fmt.Sprint("contested-", round)) })
	}
}

// atLast makes a call as a host does: what fails is tried again under the same ID. A store may give up waiting for the
// lock of another caller.
func atLast(e *spendEnv, call spendStep) {
	const tries = 50
	err := contract.Catch(func() { call(e) })
	for range tries {
		if err == nil || e.Ctx.Err() != nil || errors.Is(err, watchdog.ErrInvalid) {
			break
		}
		err = contract.Catch(func() { call(e) })
	}
	contract.Must(err, "at last")
}

// crowds has 64 callers take and return slices of one scope, and compares what they were told with what is charged.
func crowds(e *spendEnv, scope string) {
	const crowd, each, limit = 64, 3, 60
	var mu sync.Mutex
	var used watchdog.Totals
	contract.StepsAtOnce(crowd, func(caller int) {
		for n := range each {
			kept := takeSome(e, inScope(asks(fmt.Sprintf("%s-%d-%d", scope, caller, n), 2, limit), scope), n == 1)
			mu.Lock()
			used = used.Add(kept)
			mu.Unlock()
		}
	})
	contract.Require(used.Requests <= limit,
		"%d callers together were granted %d requests of %d", crowd, used.Requests, limit)
	isCharged(watchdog.Slice{Scope: scope}, used)(e)
}

// takeSome takes a slice, may return it, and returns what it keeps of it.
func takeSome(e *spendEnv, slice watchdog.Slice, giveBack bool) (kept watchdog.Totals) {
	var g watchdog.Grant
	atLast(e, takes(slice, func(got watchdog.Grant) { g = got }))
	contract.Require(g.Charged.Requests <= slice.Limit.Requests,
		"the window is charged with %d requests of %d", g.Charged.Requests, slice.Limit.Requests)
	if g.Fits && giveBack {
		atLast(e, returns(slice.ID, g.Granted))
		return kept
	}
	return g.Granted
}
