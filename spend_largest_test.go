package watchdog_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// TestSpendLargest protects a run that is only observed, and who shares a limit with it, from the largest amounts: what
// is voided is admitted no more, and gives nobody more room than there was.
func TestSpendLargest(t *testing.T) {
	largest := watchdog.Amount{
		InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64, Requests: math.MaxInt64, Turns: math.MaxInt64,
		ToolCalls: math.MaxInt64, Tool: "rm", Cost: euros(math.MaxInt64),
	}
	limits := watchdog.Spend{
		InputTokens: 10, OutputTokens: 10, Tokens: 10, Requests: 10, Turns: 10, ToolCalls: 10, Cost: euros(10),
		Tools: map[string]int64{"rm": 10},
	}
	requireNoneAdmitted := func(t *testing.T, wd *watchdog.Watchdog) {
		t.Helper()
		require.NotEmpty(t, wd.Usage())
		for _, u := range wd.Usage() {
			require.Zero(t, u.Admitted, u)
		}
	}
	t.Run("without a store", func(t *testing.T) {
		wd := guard(t, watchdog.Config{ObserveOnly: true, Budget: watchdog.Budget{Spend: limits}})
		layer := openLayer(t, wd, "in", watchdog.Budget{Spend: limits})
		for range 3 {
			first, second := admit(t, layer, largest), admit(t, wd, largest)
			require.EqualValues(t, math.MaxInt64, wd.Usage()[0].Admitted)
			require.NoError(t, first.Void())
			require.EqualValues(t, math.MaxInt64, wd.Usage()[0].Admitted)
			require.NoError(t, second.Void())
			requireNoneAdmitted(t, wd)
			requireNoneAdmitted(t, layer)
		}
		for _, u := range wd.Usage() {
			require.Zero(t, u.Used, u)
		}
	})
	runSpend(t, "of a scope whose store hangs", func(t *testing.T, store *hangingSpend, attach attachRun) {
		cfg := watchdog.Config{Scopes: teamOf(1000)}
		counts := attach("s-1", cfg)
		cfg.ObserveOnly = true
		observed := attach("s-2", cfg)
		hang := make(chan struct{})
		store.set(func(s *hangingSpend) { s.hang = hang })
		first, second := admit(t, observed, requests(math.MaxInt64)), admit(t, observed, requests(math.MaxInt64))
		require.NoError(t, first.Void())
		require.NoError(t, second.Void())
		requireNoneAdmitted(t, observed)
		_, err := counts.Admit(context.Background(), "", requests(2000))
		require.ErrorIs(t, err, context.DeadlineExceeded, "it needs a slice")
		store.set(func(s *hangingSpend) { s.hang = nil })
		close(hang)
	})
}

// TestSpendLargestGivenBack protects the window of a scope from a run that is only observed: what it admits there for
// more than any limit, and does not use, is charged no more in the end.
func TestSpendLargestGivenBack(t *testing.T) {
	for name, end := range map[string]func(c watchdog.Charge) error{
		"voided":  watchdog.Charge.Void,
		"settled": func(c watchdog.Charge) error { return c.Settle(requests(0)) },
	} {
		runSpend(t, name, func(t *testing.T, store *hangingSpend, attach attachRun) {
			cfg := watchdog.Config{Scopes: teamOf(1000)}
			counts := attach("s-1", cfg)
			require.NoError(t, admit(t, counts, requests(7)).Settle(requests(7)))
			require.NoError(t, counts.Close())
			cfg.ObserveOnly = true
			observed := attach("s-2", cfg)
			for range 3 {
				require.NoError(t, end(admit(t, observed, requests(math.MaxInt64))))
			}
			synctest.Wait()
			require.NoError(t, observed.Close())
			require.EqualValues(t, 7, store.charged(t, "team").Requests)
		})
	}
}

// TestNoneIsNotWarnedOf protects a host from being told that four fifths of nothing are used.
func TestNoneIsNotWarnedOf(t *testing.T) {
	inFixture(t, func(f *fixture) {
		var warned []string
		f.cfg.OnWarning = func(w watchdog.Warning) { warned = append(warned, w.Usage.String()) }
		f.cfg.Budget.Spend = watchdog.Spend{
			InputTokens: watchdog.None, CallInput: watchdog.None, Cost: euros(watchdog.None), Errors: watchdog.None,
			Requests: 10, Turns: watchdog.None, Tools: map[string]int64{"rm": watchdog.None},
		}
		f.cfg.Scopes = teamOf(watchdog.None)
		wd := f.attach()
		require.NoError(t, admit(t, wd, watchdog.Amount{OutputTokens: 1}).Settle(watchdog.Amount{OutputTokens: 1}))
		f.pass(0)
		require.Empty(t, warned)
		require.Empty(t, f.events(watchdog.EventWarning))
		require.NoError(t, wd.ExtendSpend(watchdog.Spend{Turns: 10}))
		require.NoError(t, admit(t, wd, watchdog.Amount{Turns: 8}).Settle(watchdog.Amount{Turns: 8}))
		f.pass(0)
		require.Equal(t, []string{"turns: 8 of 10 used"}, warned)
	})
}

// TestSettleOfTool protects the limit of a tool from a call that is settled without saying again which tool it was.
func TestSettleOfTool(t *testing.T) {
	for name, store := range map[string]watchdog.SpendStore{"in memory": nil, "in a store": &watchdog.Memory{}} {
		t.Run(name, func(t *testing.T) {
			scopes := teamOf(10)
			scopes[0].Spend.Tools = map[string]int64{"rm": 10}
			cfg := watchdog.Config{Logger: quiet, SpendStore: store, Budget: watchdog.Budget{Spend: watchdog.Spend{
				Tools: map[string]int64{"rm": 10, "ls": 10}, WarnAt: []float64{},
			}}}
			if store != nil {
				cfg.Scopes = scopes
			}
			wd := guard(t, cfg)
			c := admit(t, wd, watchdog.Amount{ToolCalls: 5, Tool: "rm"})
			require.NoError(t, c.Settle(watchdog.Amount{ToolCalls: 3}))
			for _, u := range wd.Usage() {
				switch u.Tool {
				case "rm":
					require.EqualValues(t, 3, u.Used, u)
				case "ls":
					require.Zero(t, u.Used, u)
				}
			}
		})
	}
}

// TestAdmitAllocates protects a host that admits each call from garbage: without a key there is none.
func TestAdmitAllocates(t *testing.T) {
	if racing.Enabled {
		t.Skip("the race detector allocates")
	}
	ctx := context.Background()
	limits := watchdog.Budget{Spend: watchdog.Spend{
		InputTokens: 1 << 60, Requests: 1 << 60, Tools: map[string]int64{"rm": 1 << 60}, Cost: euros(1 << 60),
	}}
	most := watchdog.Amount{InputTokens: 10, Requests: 1, ToolCalls: 1, Tool: "rm", Cost: euros(3), Result: watchdog.ResultOK}
	for name, cfg := range map[string]watchdog.Config{
		"in memory":  {Budget: limits, Logger: quiet},
		"on a store": {Budget: limits, Logger: quiet, SpendStore: &watchdog.Memory{}, Scopes: teamOf(1 << 60)},
	} {
		session := attachTo(ctx, t, watchdog.Run{}, cfg)
		wd := session
		for layers := range 3 {
			t.Run(fmt.Sprintf("%s, %d layers", name, layers), func(t *testing.T) {
				require.Zero(t, testing.AllocsPerRun(1000, func() {
					c, err := wd.Admit(ctx, "", most)
					if err == nil {
						err = c.Settle(most)
					}
					if err != nil {
						t.Fatal(err)
					}
				}))
			})
			wd = openLayer(t, wd, "l", limits)
		}
	}
}
