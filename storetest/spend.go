package storetest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

type (
	spendRule = contract.Rule[watchdog.SpendStore]
	spendEnv  = contract.Env[watchdog.SpendStore]
	spendStep = step[watchdog.SpendStore]
)

// tenant is the scope of the checks that are not about scopes.
const tenant = "tenant-1"

// asks returns a slice that needs so many requests of so many. It needs nothing else, so that nothing else is granted.
// A limit below 64 has no sixty-fourth: what is granted is what is needed.
func asks(id string, least, limit int64) watchdog.Slice {
	return watchdog.Slice{ID: id, Scope: tenant, Least: requests(least), Limit: requests(limit)}
}

func requests(n int64) watchdog.Totals { return watchdog.Totals{Requests: n} }

func inScope(s watchdog.Slice, scope string) watchdog.Slice {
	s.Scope = scope
	return s
}

func freshID() string { return rand.Text() }

func take(e *spendEnv, slice watchdog.Slice) watchdog.Grant {
	g, err := e.Store.Take(e.Ctx, slice)
	contract.Must(err, "take slice %.40q of scope %.40q", slice.ID, slice.Scope)
	return g
}

// takes is a Take that must succeed. It checks the grant.
func takes(slice watchdog.Slice, checks ...func(g watchdog.Grant)) spendStep {
	return func(e *spendEnv) {
		g := take(e, slice)
		for _, check := range checks {
			in(func() { check(g) }, "slice %.40q, %+v of %+v", slice.ID, slice.Least, slice.Limit)
		}
	}
}

// grants takes a slice that must fit, and checks what is granted and what the window is charged with then.
func grants(slice watchdog.Slice, granted, charged watchdog.Totals) spendStep {
	return takes(slice, fits, func(g watchdog.Grant) {
		equal("granted", g.Granted, granted)
		equal("charged", g.Charged, charged)
	})
}

func fits(g watchdog.Grant) { equal("fits", g.Fits, true) }

// gets takes a slice of requests that must be granted.
func gets(slice watchdog.Slice, granted, charged int64) spendStep {
	return grants(slice, requests(granted), requests(charged))
}

func unfit(slice watchdog.Slice) spendStep {
	return takes(slice, func(g watchdog.Grant) {
		equal("fits", g.Fits, false)
		equal("granted", g.Granted, watchdog.Totals{})
	})
}

func givesBack(id string, n int64) spendStep { return returns(id, requests(n)) }

func returns(id string, unused watchdog.Totals) spendStep {
	return func(e *spendEnv) {
		contract.Must(e.Store.Return(e.Ctx, id, unused), "return %+v of slice %.40q", unused, id)
	}
}

// charged returns what the window of a slice is charged with, by asking for what cannot fit.
func charged(e *spendEnv, in watchdog.Slice) watchdog.Totals {
	const far = 1 << 40
	in.ID, in.Least, in.Limit, in.Force = "look", requests(far), watchdog.Totals{}, false
	return take(e, in).Charged
}

// isCharged checks what the window of a slice is charged with.
func isCharged(in watchdog.Slice, want watchdog.Totals) spendStep {
	return func(e *spendEnv) { equal(fmt.Sprintf("charged in scope %.40q", in.Scope), charged(e, in), want) }
}

// uses checks how many requests the tenant is charged with.
func uses(n int64) spendStep { return isCharged(asks("", 0, 0), requests(n)) }

// leaves makes steps, and checks that the window of a slice is charged as before.
func leaves(in watchdog.Slice, steps ...spendStep) spendStep {
	return func(e *spendEnv) { inTurn(inTurn(steps...), isCharged(in, charged(e, in)))(e) }
}

var sliceRules = []spendRule{
	{"what is asked for fits up to the limit, and not with one more",
		"a cap that is off by one call is exceeded, or cuts off a call that was paid for", inTurn(
			gets(asks("a", 30, 60), 30, 30),
			unfit(asks("b", 31, 60)),
			gets(asks("b", 30, 60), 30, 60),
			unfit(asks("c", 1, 60)),
		)},
	{"every kind is charged by itself",
		"tokens that are counted as requests end a run for the wrong reason, or never",
		inTurn(grants(ofKinds("a", counted, sixty), counted, counted),
			grants(ofKinds("b", counted, sixty), counted, counted.Add(counted)))},
	{"if one kind does not fit, none is charged",
		"a call that is refused for its cost is not made: its tokens must not be missing for the next one",
		forEach([]int{0, 1, 2, 3, 4, 5, 6}, func(tight int) spendStep {
			limit := ofEachKind(func(i int) int64 {
				if i == tight {
					return 5
				}
				return 50
			})
			slice := ofKinds(fmt.Sprint("slice-", tight), ofEachKind(func(int) int64 { return 20 }), limit)
			return inTurn(unfit(slice), isCharged(slice, watchdog.Totals{}))
		})},
	{"a slice is what is asked for, or a sixty-fourth of what is left if that is more",
		"a process that takes too little asks the store for each call, and one that takes too much starves others", inTurn(
			gets(asks("a", 10, 6400), 100, 100),
			gets(asks("b", 10, 6400), 98, 198),
			gets(asks("c", 1000, 6400), 1000, 1198),
			gets(asks("d", 10, 6400), 81, 1279),
		)},
	{"of what has no limit a slice is what is asked for",
		"a share of no limit is a number that nothing was used of", inTurn(
			gets(asks("a", 5, watchdog.NoLimit), 5, 5),
			gets(asks("b", 1_000_000, watchdog.NoLimit), 1_000_000, 1_000_005),
		)},
	{"a sum that is too large for a number stays the largest",
		"a sum that becomes negative is a limit that is never reached", inTurn(
			gets(asks("a", math.MaxInt64-1, watchdog.NoLimit), math.MaxInt64-1, math.MaxInt64-1),
			gets(asks("b", math.MaxInt64-1, watchdog.NoLimit), math.MaxInt64-1, math.MaxInt64),
			unfit(asks("c", 5, 60)),
			givesBack("b", 7),
			uses(math.MaxInt64),
		)},
	{"a forced slice is charged with what is asked for, whether it fits or not",
		"it says what was used already: what a provider bills above the admission must count, too",
		inTurn(gets(forced(asks("a", 200, 60)), 200, 200), gets(forced(asks("b", 7, 6400)), 7, 207))},
	{"above its limit a kind is granted nothing, and less than nothing never",
		"a limit that was lowered leaves a negative rest: a share of it would be given to the others", func(e *spendEnv) {
			first := take(e, asks("a", 120, 183))
			fits(first)
			turn, all := asks("b", 0, 10), first.Charged
			turn.Least.Turns, turn.Limit.Turns, all.Turns = 1, 60, 1
			inTurn(unfit(asks("c", 5, 10)), grants(turn, watchdog.Totals{Turns: 1}, all))(e)
		}},
	{"a slice that is taken again is charged once, also after its return, and has what was granted then",
		"a take whose answer was lost is repeated: it must not charge twice, nor be refused because of itself", inTurn(
			gets(asks("a", 25, 60), 25, 25),
			gets(asks("b", 7, 60), 7, 32),
			gets(asks("a", 25, 60), 25, 32),
			gets(asks("a", 9, 3), 25, 32),
			uses(32),
			givesBack("a", 5), gets(asks("a", 25, 60), 25, 27),
		)},
	{"a slice that did not fit can be taken when it does",
		"a process that was refused asks again under the same ID: the refusal charged nothing, and used up no ID",
		inTurn(unfit(asks("a", 50, 10)), gets(asks("a", 5, 10), 5, 5))},
	{"what is given back of a slice fits again, and is given back once",
		"a return whose answer was lost is repeated: giving back twice would be a limit that grows", inTurn(
			gets(asks("a", 40, 60), 40, 40),
			givesBack("a", 30), uses(10),
			givesBack("a", 30), givesBack("a", 4), uses(10),
			gets(asks("b", 35, 60), 35, 45),
			gets(asks("c", 10, 60), 10, 55),
			givesBack("c", 0), givesBack("b", 35), uses(20),
		)},
	{"a return of what no slice has is ErrInvalid",
		"a caller repeats a return that failed, but not one that can never succeed: errors.Is tells them apart", inTurn(
			unfit(asks("too much", 50, 10)),
			forEach([]string{"unknown", "", "too much", "a\x00b", "a\xffb", "'"}, func(id string) spendStep {
				return fails(fmt.Sprintf("return of slice %q", id), watchdog.ErrInvalid, givesBack(id, 0))
			}),
		)},
	{"no more is given back than was granted, and no less than nothing",
		"a bug in one host must not lower what the others have used, and a return that was refused can be made right", inTurn(
			gets(asks("a", 20, 60), 20, 20),
			forEach([]watchdog.Totals{
				{Requests: 21}, {Requests: -1}, {Requests: 5, Turns: 1}, {Cost: -1}, {InputTokens: 1},
			}, func(unused watchdog.Totals) spendStep {
				return fails(fmt.Sprintf("return of %+v of 20 requests", unused), watchdog.ErrInvalid, returns("a", unused))
			}),
			uses(20),
			givesBack("a", 15),
			uses(5),
		)},
	{"an invalid slice is refused with ErrInvalid",
		"a caller tries again if the store fails, but not if the slice can never be charged: errors.Is tells them apart",
		forEach(sliceFlaws, func(f sliceFlaw) spendStep {
			return fails("take of a slice with "+f.name, watchdog.ErrInvalid, takes(with(asks("flawed", 5, 60), f.spoil)))
		})},
	{"a take or a return with a done context changes nothing and returns the context's error",
		"a call that was refused because the store took too long is not made: it must not be charged later", inTurn(
			withDoneContexts(takes(asks("late", 5, 60))), uses(0),
			gets(asks("a", 20, 60), 20, 20), withDoneContexts(givesBack("a", 5)), uses(20),
		)},
	{"a slice that many take at once under one ID is charged once",
		"a call that is made again while the first hangs meets it there", eachSpendRace(func(e *spendEnv, scope string) {
			slice := inScope(asks(scope, 3, 60), scope)
			contract.StepsAtOnce(callers, func(int) {
				atLast(e, takes(slice, fits, func(g watchdog.Grant) { equal("granted", g.Granted, slice.Least) }))
			})
			isCharged(slice, slice.Least)(e)
		})},
	{"what many give back at once of one slice is given back once",
		"a return that is made again while the first hangs meets it there", eachSpendRace(func(e *spendEnv, scope string) {
			slice := inScope(asks(scope, 50, 60), scope)
			gets(slice, 50, 50)(e)
			contract.StepsAtOnce(callers, func(int) { atLast(e, givesBack(slice.ID, 2)) })
			isCharged(slice, requests(48))(e)
		})},
	{"many callers at once never exceed the limit, and nothing is lost",
		"parallel calls that each check and then charge overshoot by their number", eachSpendRace(crowds)},
}

func forced(s watchdog.Slice) watchdog.Slice {
	s.Force = true
	return s
}

// Totals of all kinds.
var (
	counted = ofEachKind(func(i int) int64 { return int64(i) + 1 })
	sixty   = ofEachKind(func(int) int64 { return 60 })
)

func ofEachKind(n func(kind int) int64) (t watchdog.Totals) {
	fields := reflect.ValueOf(&t).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetInt(n(i))
	}
	return t
}

func ofKinds(id string, least, limit watchdog.Totals) watchdog.Slice {
	return watchdog.Slice{ID: id, Scope: tenant, Least: least, Limit: limit}
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
	contract.Require(used.Requests <= limit, "%d callers were granted %d requests of %d", crowd, used.Requests, limit)
	isCharged(watchdog.Slice{Scope: scope}, used)(e)
}

// takeSome takes a slice, may return it, and returns what it keeps of it.
func takeSome(e *spendEnv, slice watchdog.Slice, giveBack bool) (kept watchdog.Totals) {
	var g watchdog.Grant
	atLast(e, takes(slice, func(got watchdog.Grant) { g = got }))
	contract.Require(g.Charged.Requests <= slice.Limit.Requests, "slice %+v: charged are %+v", slice, g.Charged)
	if g.Fits && giveBack {
		atLast(e, returns(slice.ID, g.Granted))
		return kept
	}
	return g.Granted
}
