package storetest

import (
	"context"
	"errors"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var spendRefusalRules = []spendRule{
	{
		"an invalid slice is refused with ErrInvalid",
		"a caller tries again if the store fails, but not if the slice can never be charged: errors.Is tells them apart",
		func(s spender) error {
			return contract.Each(sliceFlaws, func(f sliceFlaw) error {
				slice := asks(freshID(), 5, 60)
				f.spoil(&slice)
				_, err := s.take(slice)
				return isInvalid(err, "take of a slice with "+f.name)
			})
		},
	},
	{
		"a take with a done context charges nothing and returns the context's error",
		"a call that was refused because the store took too long is not made: it must not be charged later",
		func(s spender) error {
			return contract.WithDoneContexts(s.ctx, func(done context.Context) error {
				_, err := s.store.Take(done, asks("late", 5, 60))
				return errors.Join(
					wrapsContextError(done, "Take", err),
					s.holds(asks("", 0, 0), watchdog.Totals{}),
				)
			})
		},
	},
	{
		"a return with a done context gives nothing back and returns the context's error",
		"the caller no longer waits: it returns the slice again, with what is unused then",
		func(s spender) error {
			if err := s.gets(asks("a", 20, 60), 20, 20); err != nil {
				return err
			}
			return contract.WithDoneContexts(s.ctx, func(done context.Context) error {
				err := s.store.Return(done, "a", requests(5))
				return errors.Join(
					wrapsContextError(done, "Return", err),
					s.holds(asks("", 0, 0), requests(20)),
				)
			})
		},
	},
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
