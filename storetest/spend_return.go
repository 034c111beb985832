package storetest

import (
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var spendReturnRules = []spendRule{
	{
		"what is given back fits again, and is given back once",
		"a return whose answer was lost is repeated: giving back twice would be a limit that grows",
		func(s spender) error {
			return inTurn(
				func() error { return s.gets(asks("a", 40, 60), 40, 40) },
				func() error { return s.giveBack("a", 30) },
				func() error { return s.holds(asks("", 0, 0), requests(10)) },
				func() error { return s.giveBack("a", 30) },
				func() error { return s.giveBack("a", 4) },
				func() error { return s.holds(asks("", 0, 0), requests(10)) },
				func() error { return s.gets(asks("b", 35, 60), 35, 45) },
			)
		},
	},
	{
		"a return is of its own slice",
		"two processes of one scope each give back their own rest",
		func(s spender) error {
			return inTurn(
				func() error { return s.gets(asks("a", 20, 60), 20, 20) },
				func() error { return s.gets(asks("b", 10, 60), 10, 30) },
				func() error { return s.giveBack("b", 0) },
				func() error { return s.giveBack("a", 20) },
				func() error { return s.holds(asks("", 0, 0), requests(10)) },
			)
		},
	},
	{
		"a return of what no slice has is ErrInvalid",
		"a caller repeats a return that failed, but not one that can never succeed: errors.Is tells them apart",
		func(s spender) error {
			if err := s.refused(asks("too much", 50, 10)); err != nil {
				return err
			}
			return contract.Each([]string{"unknown", "", "too much", "a\x00b", "a\xffb", "'"}, func(id string) error {
				return isInvalid(s.store.Return(s.ctx, id, watchdog.Totals{}), fmt.Sprintf("return of slice %q", id))
			})
		},
	},
	{
		"no more is given back than was granted, and no less than nothing",
		"a bug in one host must not lower what the others have used, and a return that was refused can be made right",
		func(s spender) error {
			if err := s.gets(asks("a", 20, 60), 20, 20); err != nil {
				return err
			}
			wrong := []watchdog.Totals{{Requests: 21}, {Requests: -1}, {Requests: 5, Turns: 1}, {Cost: -1}, {InputTokens: 1}}
			return errors.Join(
				contract.Each(wrong, func(unused watchdog.Totals) error {
					return isInvalid(s.store.Return(s.ctx, "a", unused), fmt.Sprintf("return of %+v of 20 requests", unused))
				}),
				s.holds(asks("", 0, 0), requests(20)),
				s.giveBack("a", 15),
				s.holds(asks("", 0, 0), requests(5)),
			)
		},
	},
	{
		"what many give back at once of one slice is given back once",
		"a return that is made again while the first one hangs meets it in the store",
		func(s spender) error {
			return eachRace(func(round int) error {
				slice := asks(fmt.Sprint("contested-", round), 50, 60)
				slice.Scope = slice.ID
				if err := s.gets(slice, 50, 50); err != nil {
					return err
				}
				err := contract.AtOnce(callers, func(int) error {
					return s.persistWith(func() error { return s.giveBack(slice.ID, 2) })
				})
				return errors.Join(err, s.holds(slice, requests(48)))
			})
		},
	},
}
