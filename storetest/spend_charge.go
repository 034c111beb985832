package storetest

import (
	"fmt"
	"math"

	"github.com/seed62658d38/watchdog"
)

var fitRules = []spendRule{
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
		"a process that takes too little asks the store for each call, and one that takes too much starves the others",
		inTurn(
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

func ofEachKind(n func(kind int) int64) watchdog.Totals {
	return watchdog.Totals{
		InputTokens: n(0), OutputTokens: n(1), Tokens: n(2), Cost: n(3), Requests: n(4), Turns: n(5), ToolCalls: n(6),
	}
}

func ofKinds(id string, least, limit watchdog.Totals) watchdog.Slice {
	return watchdog.Slice{ID: id, Scope: tenant, Least: least, Limit: limit}
}

var againRules = []spendRule{
	{"a slice that is taken again is charged once, and has what was granted then",
		"a take whose answer was lost is repeated: it must not charge twice, nor be refused because of itself", inTurn(
			gets(asks("a", 25, 60), 25, 25),
			gets(asks("b", 7, 60), 7, 32),
			gets(asks("a", 25, 60), 25, 32),
			gets(asks("a", 9, 3), 25, 32),
			uses(32),
		)},
	{"a slice that is taken again after its return is charged no more",
		"a repeated take can arrive late, after its process has given the rest back",
		inTurn(gets(asks("a", 25, 60), 25, 25), givesBack("a", 5), gets(asks("a", 25, 60), 25, 20))},
	{"a slice that did not fit can be taken when it does",
		"a process that was refused asks again under the same ID: the refusal charged nothing, and used up no ID",
		inTurn(unfit(asks("a", 50, 10)), gets(asks("a", 5, 10), 5, 5))},
}

var returnRules = []spendRule{
	{"what is given back fits again, and is given back once",
		"a return whose answer was lost is repeated: giving back twice would be a limit that grows", inTurn(
			gets(asks("a", 40, 60), 40, 40),
			givesBack("a", 30), uses(10),
			givesBack("a", 30), givesBack("a", 4), uses(10),
			gets(asks("b", 35, 60), 35, 45),
		)},
	{"a return is of its own slice",
		"two processes of one scope each give back their own rest", inTurn(
			gets(asks("a", 20, 60), 20, 20), gets(asks("b", 10, 60), 10, 30),
			givesBack("b", 0), givesBack("a", 20), uses(10),
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
}
