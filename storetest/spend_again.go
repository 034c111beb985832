package storetest

import (
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var spendAgainRules = []spendRule{
	{
		"a slice that is taken again is charged once, and has what was granted then",
		"a take whose answer was lost is repeated: it must not charge twice, nor be refused because of itself",
		func(s spender) error {
			return errors.Join(
				s.gets(asks("a", 25, 60), 25, 25),
				s.gets(asks("b", 7, 60), 7, 32),
				s.gets(asks("a", 25, 60), 25, 32),
				s.gets(asks("a", 9, 3), 25, 32),
				s.holds(asks("", 0, 0), requests(32)),
			)
		},
	},
	{
		"a slice that is taken again after its return is charged no more",
		"a repeated take can arrive late, after its process has given the rest back",
		func(s spender) error {
			return errors.Join(
				s.gets(asks("a", 25, 60), 25, 25),
				s.giveBack("a", 5),
				s.gets(asks("a", 25, 60), 25, 20),
			)
		},
	},
	{
		"a slice that did not fit can be taken when it does",
		"a process that was refused asks again under the same ID: the refusal charged nothing, and used up no ID",
		func(s spender) error {
			return errors.Join(s.refused(asks("a", 50, 10)), s.gets(asks("a", 5, 10), 5, 5))
		},
	},
	{
		"a slice that many take at once under one ID is charged once",
		"a call that is made again while the first one hangs meets it in the store",
		func(s spender) error {
			return eachRace(func(round int) error {
				slice := asks(fmt.Sprint("contested-", round), 3, 60)
				slice.Scope = slice.ID
				err := contract.AtOnce(callers, func(int) error {
					g, err := s.persist(slice)
					if err == nil && (!g.Fits || g.Granted != slice.Least) {
						err = fmt.Errorf("a caller was granted %+v, want %+v", g.Granted, slice.Least)
					}
					return err
				})
				return errors.Join(err, s.holds(slice, slice.Least))
			})
		},
	},
}

// persist takes a slice as a host does: what fails is tried again under the same ID. A store may give up waiting for
// the lock of another caller.
func (s spender) persist(slice watchdog.Slice) (g watchdog.Grant, err error) {
	err = s.persistWith(func() (err error) {
		g, err = s.take(slice)
		return err
	})
	return g, err
}

func (s spender) persistWith(call func() error) error {
	const tries = 50
	err := call()
	for range tries {
		if err == nil || s.ctx.Err() != nil || errors.Is(err, watchdog.ErrInvalid) {
			break
		}
		err = call()
	}
	return err
}
