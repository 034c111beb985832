package storetest_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) watchdog.EventStore { return new(watchdog.Memory) })
	require.NoError(t, storetest.Test(func() (watchdog.EventStore, error) { return new(watchdog.Memory), nil }))
	storetest.RunSpend(t, func(*testing.T) watchdog.SpendStore { return new(watchdog.Memory) })
	require.NoError(t, storetest.TestSpend(func() (watchdog.SpendStore, error) { return new(watchdog.Memory), nil }))
}

func TestBrokenStores(t *testing.T) {
	require.NoError(t, testEvents(plain, sound), "a store without an optional interface breaks no rule")
	contracttest.EachBreaksOneRule(t, storetest.EventRules(), brokenEvents)
}

func TestBrokenDurableStores(t *testing.T) {
	contracttest.EachBreaksOneRule(t, storetest.DurableRules(), placeFaults)
}

func TestBrokenSpendStores(t *testing.T) {
	require.NoError(t, testSpend(sound))
	contracttest.EachBreaksOneRule(t, storetest.SpendRules(), brokenSpends)
}

var (
	sound        = before("", func(*call) {}) // is no fault
	brokenEvents = append(contracttest.Stores(plain, eventFaults), contracttest.Stores(able, ableFaults)...)
	brokenSpends = contracttest.Stores(spending, spendFaults)
)

func testEvents(open func(fault) watchdog.EventStore, f fault) error {
	return storetest.Test(func() (watchdog.EventStore, error) { return open(f), nil })
}

func testSpend(f fault) error {
	return storetest.TestSpend(func() (watchdog.SpendStore, error) { return spending(f), nil })
}

// A race that a broken store can win is no rule: the suite of its author would pass now and then.
func TestRacesAreAlwaysFound(t *testing.T) {
	alwaysFound(t, storetest.DurableRules(), placeFaults, oneIDOfStores, noOverlapOfStores)
	alwaysFound(t, storetest.SpendRules(), brokenSpends, oneIDTogether, returnTogether, crowdFits)
}

func alwaysFound[S any](t *testing.T, rules []contract.Rule[S], all []contracttest.Broken[S], races ...string) {
	t.Helper()
	for _, b := range all {
		if !slices.Contains(races, b.Breaks) {
			continue
		}
		rule := contracttest.RuleOf(t, rules, b.Breaks)
		t.Run(b.Flaw, func(t *testing.T) {
			for run := range racing.Rounds(100, 100) {
				require.Error(t, contract.Check(t.Context(), rule, b.Open()), "run %d", run+1)
			}
		})
	}
}

// A place whose stores lock each other out keeps the rules, whether or not its stores have transactions.
func TestDurablePlace(t *testing.T) {
	memory := func() opener {
		m := new(memory)
		return func() (watchdog.EventStore, error) { return m, nil }
	}
	require.NoError(t, storetest.TestDurable(memory))
	storetest.RunDurable(t, func(*testing.T) func() (watchdog.EventStore, error) {
		return places(func() fault { return sound })()
	})
}

// A follower that is not told is found when the time of the check is over.
func TestMissedEvents(t *testing.T) {
	defer contract.SetTimeout(200 * time.Millisecond)()
	err := testEvents(able, before("Follow", func(c *call) { c.tell = func(event) {} }))
	require.ErrorContains(t, err, "a follower of all runs is told of each event that is stored from then on, once: ")
	require.ErrorContains(t, err, "a follower is told of what a transaction stores: ")
}

// A store whose answers are lost while it is busy keeps the rules: a host tries again under the same ID.
func TestBusySpendStore(t *testing.T) {
	var calls, inside, lost atomic.Int64
	busy := func(c *call, next func()) {
		others := inside.Add(1) - 1
		defer inside.Add(-1)
		next()
		runtime.Gosched()
		if c.err == nil && others > 0 && calls.Add(1)%2 == 0 {
			lost.Add(1)
			c.err = errOwn
		}
	}
	require.NoError(t, testSpend(both(around("Take", busy), around("Return", busy))))
	assert.Positive(t, lost.Load())
}

func TestRunFailure(t *testing.T) {
	contracttest.RunFails(t, func() {
		storetest.Run(t, func(*testing.T) watchdog.EventStore { return brokenEvents[0].Open() })
		storetest.RunDurable(t, func(*testing.T) func() (watchdog.EventStore, error) { return placeFaults[0].Open() })
		storetest.RunSpend(t, func(*testing.T) watchdog.SpendStore { return brokenSpends[0].Open() })
	}, contracttest.RuleOf(t, storetest.EventRules(), eventFaults[0].Breaks).Name,
		contracttest.RuleOf(t, storetest.DurableRules(), placeFaults[0].Breaks).Name,
		contracttest.RuleOf(t, storetest.SpendRules(), spendFaults[0].Breaks).Name)
}
