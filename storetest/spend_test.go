package storetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestSpendOfMemory(t *testing.T) {
	storetest.RunSpend(t, func(*testing.T) watchdog.SpendStore { return new(watchdog.Memory) })
	require.NoError(t, storetest.TestSpend(func() (watchdog.SpendStore, error) { return new(watchdog.Memory), nil }))
}

// Each store has one flaw, and breaks one rule: the one that is about the flaw.
func TestBrokenSpendStores(t *testing.T) {
	require.NoError(t, storetest.TestSpend(func() (watchdog.SpendStore, error) { return newLedger(), nil }))
	for _, b := range brokenSpends() {
		t.Run(b.flaw, func(t *testing.T) {
			t.Parallel()
			err := storetest.TestSpend(func() (watchdog.SpendStore, error) { return b.open(), nil })
			assert.Equal(t, []string{b.breaks}, violated(t, err), "a store that %s: %v", b.flaw, err)
		})
	}
}

func TestSpendRulesHaveBrokenStores(t *testing.T) {
	var broken []string
	for _, b := range brokenSpends() {
		broken = append(broken, b.breaks)
	}
	names := storetest.SpendRuleNames()
	for _, name := range names {
		assert.Contains(t, broken, name, "no broken store tests this rule")
	}
	slices.Sort(names)
	assert.Len(t, slices.Compact(slices.Clone(names)), len(names))
}

// A race that a broken store can win is no rule: the suite of its author would pass now and then.
func TestSpendRacesAreAlwaysFound(t *testing.T) {
	for _, b := range brokenSpends() {
		if !slices.Contains([]string{oneIDTogether, returnTogether, crowdFits}, b.breaks) {
			continue
		}
		t.Run(b.flaw, func(t *testing.T) {
			for run := range racing.Tenth(100) {
				require.Error(t, storetest.CheckSpend(b.breaks, b.open()), "run %d", run+1)
			}
		})
	}
}

func TestSpendOpenAndCloseErrors(t *testing.T) {
	flaw := errors.New("no such place")
	require.ErrorIs(t, storetest.TestSpend(func() (watchdog.SpendStore, error) { return nil, flaw }), flaw)
	err := storetest.TestSpend(func() (watchdog.SpendStore, error) { return closing{new(watchdog.Memory), flaw}, nil })
	require.ErrorIs(t, err, flaw)
	assert.Len(t, violated(t, err), len(storetest.SpendRuleNames()))
}

// A store whose answers are lost while it is busy keeps the rules: a host tries again under the same ID.
func TestBusySpendStore(t *testing.T) {
	var lost atomic.Int64
	require.NoError(t, storetest.TestSpend(func() (watchdog.SpendStore, error) {
		return &busyStore{SpendStore: newLedger(), lost: &lost}, nil
	}))
	assert.Positive(t, lost.Load())
}

// A busyStore loses every other answer to callers that are not alone.
type busyStore struct {
	watchdog.SpendStore
	calls, inside atomic.Int64
	lost          *atomic.Int64
}

func (b *busyStore) Take(ctx context.Context, s watchdog.Slice) (g watchdog.Grant, err error) {
	err = b.answer(func() (err error) {
		g, err = b.SpendStore.Take(ctx, s)
		return err
	})
	return g, err
}

func (b *busyStore) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	return b.answer(func() error { return b.SpendStore.Return(ctx, id, unused) })
}

func (b *busyStore) answer(call func() error) error {
	others := b.inside.Add(1) - 1
	defer b.inside.Add(-1)
	err := call()
	runtime.Gosched()
	if err == nil && others > 0 && b.calls.Add(1)%2 == 0 {
		b.lost.Add(1)
		return errOwn
	}
	return err
}

// TestRunSpendFailure runs this test binary again. The child runs the suite with a broken store, and must fail the
// subtest of the rule.
func TestRunSpendFailure(t *testing.T) {
	const childVariable = "STORETEST_RUN_BROKEN_SPEND"
	b := brokenSpends()[0]
	if os.Getenv(childVariable) != "" {
		storetest.RunSpend(t, func(*testing.T) watchdog.SpendStore { return b.open() })
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"=1")
	output, err := child.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(output), "--- FAIL: "+t.Name()+"/"+strings.ReplaceAll(b.breaks, " ", "_"))
	assert.Equal(t, 1, strings.Count(string(output), "why it matters: "), "%s", output)
}
