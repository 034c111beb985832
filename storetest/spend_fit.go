package storetest

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed62658d38/watchdog"
)

var spendFitRules = []spendRule{
	{
		"what is asked for fits up to the limit, and not with one more",
		"a cap that is off by one call is exceeded, or cuts off a call that was paid for",
		func(s spender) error {
			return errors.Join(
				s.gets(asks("a", 30, 60), 30, 30),
				s.refused(asks("b", 31, 60)),
				s.gets(asks("b", 30, 60), 30, 60),
				s.refused(asks("c", 1, 60)),
			)
		},
	},
	{
		"every kind is charged by itself",
		"tokens that are counted as requests end a run for the wrong reason, or never",
		func(s spender) error {
			var least, limit, all watchdog.Totals
			for i := range kindCount {
				*kind(&least, i), *kind(&limit, i) = int64(i)+1, 60
			}
			all = least.Add(least)
			slice := watchdog.Slice{ID: "a", Scope: tenant, Least: least, Limit: limit}
			again := slice
			again.ID = "b"
			return errors.Join(s.granted(slice, least, least), s.granted(again, least, all))
		},
	},
	{
		"if one kind does not fit, none is charged",
		"a call that is refused for its cost is not made: its tokens must not be missing for the next one",
		func(s spender) error {
			var errs []error
			for i := range kindCount {
				slice := watchdog.Slice{ID: fmt.Sprint("slice-", i), Scope: tenant}
				for j := range kindCount {
					*kind(&slice.Least, j), *kind(&slice.Limit, j) = 20, 50
				}
				*kind(&slice.Limit, i) = 5
				errs = append(errs, s.refused(slice), s.holds(slice, watchdog.Totals{}))
			}
			return errors.Join(errs...)
		},
	},
	{
		"a slice is what is asked for, or a sixty-fourth of what is left if that is more",
		"a process that takes too little asks the store for each call, and one that takes too much starves the others",
		func(s spender) error {
			return errors.Join(
				s.gets(asks("a", 10, 6400), 100, 100),
				s.gets(asks("b", 10, 6400), 98, 198),
				s.gets(asks("c", 1000, 6400), 1000, 1198),
				s.gets(asks("d", 10, 6400), 81, 1279),
			)
		},
	},
	{
		"of what has no limit a slice is what is asked for",
		"a share of no limit is a number that nothing was used of",
		func(s spender) error {
			return errors.Join(
				s.gets(asks("a", 5, watchdog.NoLimit), 5, 5),
				s.gets(asks("b", 1_000_000, watchdog.NoLimit), 1_000_000, 1_000_005),
			)
		},
	},
	{
		"a sum that is too large for a number stays the largest",
		"a sum that becomes negative is a limit that is never reached",
		func(s spender) error {
			const most = math.MaxInt64 - 1
			return inTurn(
				func() error { return s.gets(asks("a", most, watchdog.NoLimit), most, most) },
				func() error { return s.gets(asks("b", most, watchdog.NoLimit), most, math.MaxInt64) },
				func() error { return s.refused(asks("c", 5, 60)) },
				func() error { return s.giveBack("b", 7) },
				func() error { return s.holds(asks("", 0, 0), requests(math.MaxInt64)) },
			)
		},
	},
	{
		"a forced slice is charged with what is asked for, whether it fits or not",
		"it says what was used already: what a provider bills above the admission must count, too",
		func(s spender) error {
			forced := asks("a", 200, 60)
			forced.Force = true
			small := asks("b", 7, 6400)
			small.Force = true
			return errors.Join(s.gets(forced, 200, 200), s.gets(small, 7, 207))
		},
	},
	{
		"above its limit a kind is granted nothing, and less than nothing never",
		"a limit that was lowered leaves a negative rest: a share of it would be given to the others",
		func(s spender) error {
			first, err := s.take(asks("a", 120, 183))
			if err != nil || !first.Fits {
				return errors.Join(errors.New("120 of 183 requests are not granted"), err)
			}
			turn := asks("b", 0, 10)
			turn.Least.Turns, turn.Limit.Turns = 1, 60
			all := first.Charged
			all.Turns = 1
			return errors.Join(
				s.refused(asks("c", 5, 10)),
				s.granted(turn, watchdog.Totals{Turns: 1}, all),
			)
		},
	},
}

// kindCount is how many kinds [watchdog.Totals] has.
const kindCount = 7

// kind returns one count of totals.
func kind(t *watchdog.Totals, i int) *int64 {
	return [kindCount]*int64{
		&t.InputTokens, &t.OutputTokens, &t.Tokens, &t.Cost, &t.Requests, &t.Turns, &t.ToolCalls,
	}[i]
}
