package storetest_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) watchdog.EventStore { return new(watchdog.Memory) })
	require.NoError(t, storetest.Test(func() (watchdog.EventStore, error) { return new(watchdog.Memory), nil }))
}

func TestSpendOfMemory(t *testing.T) {
	storetest.RunSpend(t, func(*testing.T) watchdog.SpendStore { return new(watchdog.Memory) })
	require.NoError(t, storetest.TestSpend(func() (watchdog.SpendStore, error) { return new(watchdog.Memory), nil }))
}

func TestBrokenStores(t *testing.T) {
	require.NoError(t, testEvents(plain(func(*altered) {})), "a store without an optional interface breaks no rule")
	eachBreaksOneRule(t, eventFaults(), storetest.RuleNames(), testEvents)
}

func TestBrokenDurableStores(t *testing.T) {
	eachBreaksOneRule(t, placeFaults, storetest.DurableRuleNames(), storetest.TestDurable)
}

func TestBrokenSpendStores(t *testing.T) {
	require.NoError(t, testSpend(func() watchdog.SpendStore { return newLedger() }))
	eachBreaksOneRule(t, spendFaults(), storetest.SpendRuleNames(), testSpend)
}

func testEvents(open func() watchdog.EventStore) error {
	return storetest.Test(func() (watchdog.EventStore, error) { return open(), nil })
}

func testSpend(open func() watchdog.SpendStore) error {
	return storetest.TestSpend(func() (watchdog.SpendStore, error) { return open(), nil })
}

func eventFaults() faults[watchdog.EventStore] {
	return joined(fieldFaults, batchFaults, readFaults, selectionFaults, transactionFaults, feedFaults)
}

// eachBreaksOneRule gives each store to all rules. Each has one flaw, and breaks one rule: the one that is about the
// flaw. And each rule is broken by a store.
func eachBreaksOneRule[S any](t *testing.T, all faults[S], names []string, test func(open func() S) error) {
	t.Helper()
	assert.ElementsMatch(t, names, slices.Collect(maps.Keys(all)), "each rule has one name, and broken stores")
	n := 0
	for _, rule := range slices.Sorted(maps.Keys(all)) {
		for _, f := range all[rule] {
			if n++; racing.Enabled && n%4 > 0 {
				continue // every store is given to the same rules
			}
			t.Run(f.flaw, func(t *testing.T) {
				t.Parallel()
				err := test(f.open)
				assert.Equal(t, []string{rule}, violated(t, err), "a store that %s: %v", f.flaw, err)
			})
		}
	}
}

// A race that a broken store can win is no rule: the suite of its author would pass now and then.
func TestRacesAreAlwaysFound(t *testing.T) {
	alwaysFound(t, placeFaults, storetest.CheckDurable, oneIDOfStores, noOverlapOfStores)
}

func TestSpendRacesAreAlwaysFound(t *testing.T) {
	alwaysFound(t, spendFaults(), storetest.CheckSpend, oneIDTogether, returnTogether, crowdFits)
}

func alwaysFound[S any](t *testing.T, all faults[S], check func(rule string, store S) error, rules ...string) {
	t.Helper()
	for _, rule := range rules {
		for _, f := range all[rule] {
			t.Run(f.flaw, func(t *testing.T) {
				for run := range racing.Tenth(100) {
					require.Error(t, check(rule, f.open()), "run %d", run+1)
				}
			})
		}
	}
}

// A place whose stores lock each other out keeps the rules, whether or not its stores have transactions.
func TestDurablePlace(t *testing.T) {
	for name, at := range map[string]func() opener{
		"with transactions": func() opener {
			memory := new(watchdog.Memory)
			return func() (watchdog.EventStore, error) { return memory, nil }
		},
		"without": place(placeFlaws{}),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, storetest.TestDurable(at))
			storetest.RunDurable(t, func(*testing.T) func() (watchdog.EventStore, error) { return at() })
		})
	}
}

func TestHangingStore(t *testing.T) {
	defer storetest.SetCheckTimeout(20 * time.Millisecond)()
	release := make(chan struct{})
	defer close(release)
	err := testEvents(plain(func(a *altered) {
		a.read = func(context.Context, string, string) ([]event, error) {
			<-release
			return nil, nil
		}
	}))
	assert.Contains(t, violated(t, err), "an aggregate without events is empty, and no error")
	assert.ErrorContains(t, err, "did not return within")
}

// A follower that is not told is found when the time of the check is over.
func TestMissedEvents(t *testing.T) {
	defer storetest.SetCheckTimeout(200 * time.Millisecond)()
	err := testEvents(able(func(a *altered) {
		a.follow = func(ctx context.Context, _ string, ready func(), _ func(event)) error {
			ready()
			<-ctx.Done()
			return ctx.Err()
		}
	}))
	assert.Subset(t, violated(t, err), []string{
		"a follower of all runs is told of each event that is stored from then on, once",
		"a follower is told of what a transaction stores",
	})
}

func TestOpenAndCloseErrors(t *testing.T) {
	flaw := errors.New("no such place")
	require.ErrorIs(t, storetest.Test(func() (watchdog.EventStore, error) { return nil, flaw }), flaw)
	require.ErrorIs(t, storetest.TestSpend(func() (watchdog.SpendStore, error) { return nil, flaw }), flaw)
	require.ErrorIs(t, storetest.TestDurable(func() func() (watchdog.EventStore, error) {
		return func() (watchdog.EventStore, error) { return nil, flaw }
	}), flaw)

	unclosed := func(a *altered) { a.close = func() error { return flaw } }
	err := testEvents(able(unclosed))
	require.ErrorIs(t, err, flaw)
	assert.Len(t, violated(t, err), len(storetest.RuleNames()))
	err = testSpend(func() watchdog.SpendStore { return able(unclosed)().(*altered) })
	require.ErrorIs(t, err, flaw)
	assert.Len(t, violated(t, err), len(storetest.SpendRuleNames()))
}

// A store whose answers are lost while it is busy keeps the rules: a host tries again under the same ID.
func TestBusySpendStore(t *testing.T) {
	var calls, inside, lost atomic.Int64
	busy := func(ctx context.Context, _ string, do func(context.Context) error) error {
		others := inside.Add(1) - 1
		defer inside.Add(-1)
		err := do(ctx)
		runtime.Gosched()
		if err == nil && others > 0 && calls.Add(1)%2 == 0 {
			lost.Add(1)
			return errOwn
		}
		return err
	}
	require.NoError(t, testSpend(withFlaw(func(l *ledger) { l.call = busy })))
	assert.Positive(t, lost.Load())
}

// TestRunFailure runs this test binary again. The child runs the suites with broken stores, and must fail the subtests
// of the rules.
func TestRunFailure(t *testing.T) {
	const childVariable, rule = "STORETEST_RUN_BROKEN", "every field is read as it was appended"
	if os.Getenv(childVariable) != "" {
		storetest.Run(t, func(*testing.T) watchdog.EventStore { return fieldFaults[rule][0].open() })
		storetest.RunDurable(t, func(*testing.T) func() (watchdog.EventStore, error) {
			return placeFaults[oneIDOfStores][0].open()
		})
		storetest.RunSpend(t, func(*testing.T) watchdog.SpendStore { return spendFaults()[crowdFits][0].open() })
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"=1")
	output, err := child.CombinedOutput()
	require.ErrorAs(t, err, new(*exec.ExitError))
	for _, rule := range []string{rule, oneIDOfStores, crowdFits} {
		assert.Contains(t, string(output), "--- FAIL: "+t.Name()+"/"+strings.ReplaceAll(rule, " ", "_"))
	}
	assert.Equal(t, 3, strings.Count(string(output), "why it matters: "), "%s", output)
}

// violated returns the rules that the error of Test names.
func violated(t *testing.T, err error) (names []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "not a joined error: %v", err)
	for _, part := range joined.Unwrap() {
		v := new(storetest.Violation)
		require.ErrorAs(t, part, &v)
		assert.NotEmpty(t, v.Why)
		assert.ErrorContains(t, v, v.Why)
		assert.ErrorContains(t, v, v.Rule)
		names = append(names, v.Rule)
	}
	return names
}
