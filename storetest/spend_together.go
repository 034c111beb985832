package storetest

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var spendTogetherRules = []spendRule{
	{
		"many callers at once never exceed the limit, and nothing is lost",
		"parallel calls that each check and then charge overshoot by their number",
		func(s spender) error {
			return eachRace(func(round int) error { return s.crowd(fmt.Sprint("crowd-", round)) })
		},
	},
}

// crowd has 64 callers take and return slices of one scope, and compares what they were told with what is charged.
func (s spender) crowd(scope string) error {
	const crowded, each, limit = 64, 3, 60
	var mu sync.Mutex
	var used watchdog.Totals
	err := contract.AtOnce(crowded, func(caller int) error {
		for n := range each {
			slice := asks(fmt.Sprintf("%s-%d-%d", scope, caller, n), 2, limit)
			slice.Scope = scope
			kept, err := s.takeSome(slice, n == 1)
			if err != nil {
				return err
			}
			mu.Lock()
			used = used.Add(kept)
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if used.Requests > limit {
		return fmt.Errorf("%d callers together were granted %d requests of %d", crowded, used.Requests, limit)
	}
	return s.holds(watchdog.Slice{Scope: scope}, used)
}

// takeSome takes a slice, may return it, and returns what it keeps of it.
func (s spender) takeSome(slice watchdog.Slice, giveBack bool) (kept watchdog.Totals, err error) {
	g, err := s.persist(slice)
	switch {
	case err != nil:
		return kept, err
	case g.Charged.Requests > slice.Limit.Requests:
		return kept, fmt.Errorf("the window is charged with %d requests of %d", g.Charged.Requests, slice.Limit.Requests)
	case g.Fits && giveBack:
		return kept, s.persistWith(func() error { return s.giveBack(slice.ID, g.Granted.Requests) })
	}
	return g.Granted, nil
}

// eachRace runs a race in as many rounds as there is time for, within limits.
func eachRace(run func(round int) error) error {
	const fewest, most = 3, 20
	began := time.Now()
	for round := range most {
		if round >= fewest && time.Since(began) > raceTime {
			break
		}
		if err := run(round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func freshID() string { return rand.Text() }
