package otelwatchdog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/taxonomy"
	"github.com/seed62658d38/watchdog/internal/taxonomy/taxonomytest"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/otelwatchdog"
)

func euros(micros int64) watchdog.Money { return watchdog.Money{Micros: micros, Currency: "EUR"} }

func limit(name string) attribute.KeyValue { return attribute.String("watchdog.limit", name) }

func scope(name string) attribute.KeyValue { return attribute.String("watchdog.scope", name) }

var waits = []watchdog.DirectiveKind{watchdog.DirectiveWait}

// spending is a run with limits of its own and one that it shares, which only waits when they are exceeded.
var spending = watchdog.Config{
	Budget: watchdog.Budget{
		Spend:   watchdog.Spend{Tokens: 1000, Tools: map[string]int64{"bash": 2}},
		Ladders: watchdog.Ladders{Tokens: waits, Cost: waits, ToolCalls: waits},
	},
	Scopes: []watchdog.SharedSpend{{Scope: "tenant-7", Spend: watchdog.Spend{Cost: euros(1_000_000)}}},
}

// spendEverything has a limit of each attribute used.
func spendEverything(f *fixture) {
	wd := f.attachIn(context.Background(), "s-spending", spending)
	admit(f, wd, watchdog.Amount{InputTokens: 1, ToolCalls: 1, Tool: "bash", Cost: euros(1)})
}

func admit(f *fixture, wd *otelwatchdog.Watchdog, most watchdog.Amount) watchdog.Charge {
	f.t.Helper()
	charge, err := wd.Admit(context.Background(), "", most)
	require.NoError(f.t, err)
	return charge
}

func requireRefused(f *fixture, wd *otelwatchdog.Watchdog, most watchdog.Amount) {
	f.t.Helper()
	_, err := wd.Admit(context.Background(), "", most)
	var refused *watchdog.Refused
	require.ErrorAs(f.t, err, &refused)
}

func TestSpend(t *testing.T) {
	const used, admitted, allowed = "watchdog.spend.used", "watchdog.spend.admitted", "watchdog.spend.allowed"
	const refused = "watchdog.spend.refused"
	bubble(t, "what live runs have used and may use is added up, by limit and tool", func(f *fixture) {
		one, other := f.attach(spending), f.attachIn(context.Background(), "s-2", spending)
		require.NoError(f.t, admit(f, one, watchdog.Amount{InputTokens: 300}).Settle(watchdog.Amount{InputTokens: 200}))
		admit(f, other, watchdog.Amount{InputTokens: 30, ToolCalls: 1, Tool: "bash"})
		require.EqualValues(f.t, 200, f.count(used, limit("tokens")))
		require.EqualValues(f.t, 30, f.count(admitted, limit("tokens")))
		require.EqualValues(f.t, 2000, f.count(allowed, limit("tokens")))
		bash := attribute.String("watchdog.tool", "bash")
		require.EqualValues(f.t, 1, f.count(admitted, limit("tool_calls"), bash))
		require.EqualValues(f.t, 4, f.count(allowed, limit("tool_calls"), bash))
		require.NoError(f.t, other.Close())
		require.EqualValues(f.t, 1000, f.count(allowed, limit("tokens")), "only of runs that live")
		require.Zero(f.t, f.count(admitted, limit("tokens")))
	})
	bubble(t, "each count has its gauges, by the name that it has in events", func(f *fixture) {
		var all watchdog.Spend
		counts := taxonomy.Counts[:len(taxonomy.Counts)-1] // a budget has no limit of loops, the last
		for i, count := range counts {
			*taxonomytest.Of(&all, count) = int64(1000 + i)
		}
		f.attach(watchdog.Config{Budget: watchdog.Budget{Spend: all}})
		for i, count := range counts {
			require.EqualValues(f.t, 1000+i, f.count(allowed, limit(count.Name)), count.Name)
		}
	})
	bubble(t, "a limit that runs share is counted once", func(f *fixture) {
		one, other := f.attach(spending), f.attachIn(context.Background(), "s-2", spending)
		for _, wd := range []*otelwatchdog.Watchdog{one, other} {
			charge := admit(f, wd, watchdog.Amount{Cost: euros(100_000)})
			require.NoError(f.t, charge.Settle(watchdog.Amount{Cost: euros(100_000)}))
		}
		tenant, euro := scope("tenant-7"), attribute.String("watchdog.currency", "EUR")
		require.EqualValues(f.t, 200_000, f.count(used, limit("cost"), tenant, euro))
		require.EqualValues(f.t, 1_000_000, f.count(allowed, limit("cost"), tenant, euro))
		require.Len(f.t, f.points(used), 3, "one for each limit, not for each run")
	})
	bubble(t, "each refused call counts, also after the trip and the end of the run", func(f *fixture) {
		wd := f.attach(spending)
		require.Zero(f.t, f.count(refused))
		for range 3 {
			requireRefused(f, wd, watchdog.Amount{InputTokens: 1001})
		}
		requireRefused(f, wd, watchdog.Amount{Cost: euros(1_000_001)})
		synctest.Wait()
		require.EqualValues(f.t, 1, f.count("watchdog.trips.total", reason(watchdog.TokensExceeded)), "the ladder only waits")
		require.EqualValues(f.t, 3, f.count(refused, limit("tokens")))
		require.EqualValues(f.t, 1, f.count(refused, limit("cost"), scope("tenant-7")))
		require.NoError(f.t, wd.Close())
		require.EqualValues(f.t, 4, f.count(refused))
		again := f.attachIn(context.Background(), "s-2", spending)
		requireRefused(f, again, watchdog.Amount{InputTokens: 1001})
		require.EqualValues(f.t, 5, f.count(refused))
	})
	bubble(t, "the refused call that ends its run counts", func(f *fixture) {
		wd := f.attach(watchdog.Config{Budget: watchdog.Budget{Spend: watchdog.Spend{Turns: 1}}})
		requireRefused(f, wd, watchdog.Amount{Turns: 2})
		synctest.Wait()
		require.Error(f.t, wd.Context().Err())
		require.EqualValues(f.t, 1, f.count(refused, limit("turns")))
		require.EqualValues(f.t, 1, f.count("watchdog.trips.total", reason(watchdog.TurnsExceeded),
			directive(watchdog.DirectiveCancel)))
		event := f.spans()[0].Events[0]
		require.Contains(f.t, event.Attributes, limit("turns"))
		require.Contains(f.t, event.Attributes, attribute.Int64("watchdog.spend.allowed", 1))
		require.Contains(f.t, event.Attributes, attribute.Int64("watchdog.spend.needed", 2))
	})
	bubble(t, "a call that a scope kept elsewhere has no room for counts once in a run that is only observed", func(f *fixture) {
		cfg := spending
		cfg.ObserveOnly = true
		elsewhere := f.attachIn(context.Background(), "s-2", spending)
		admit(f, elsewhere, watchdog.Amount{Cost: euros(990_000)})
		wd := f.attach(cfg)
		admit(f, wd, watchdog.Amount{Cost: euros(20_000)})
		admit(f, wd, watchdog.Amount{Cost: euros(20_000), InputTokens: 1001})
		require.EqualValues(f.t, 1, f.count(refused, limit("cost")), "the other call did not fit in its run before")
		require.EqualValues(f.t, 1, f.count(refused, limit("tokens")))
	})
	bubble(t, "a layer has series of its own, and its calls are also the run's", func(f *fixture) {
		wd := f.attach(spending)
		layer, err := wd.Layer("step", watchdog.Budget{Spend: watchdog.Spend{Tokens: 100}})
		require.NoError(f.t, err)
		admit(f, layer, watchdog.Amount{InputTokens: 10})
		require.EqualValues(f.t, 10, f.count(admitted, limit("tokens"), attribute.Bool("watchdog.layer", true)))
		require.EqualValues(f.t, 10, f.count(admitted, limit("tokens"), attribute.Bool("watchdog.layer", false)))
	})
	bubble(t, "a run without counted limits has no series", func(f *fixture) {
		wd := f.attach(laddered)
		admit(f, wd, watchdog.Amount{InputTokens: 10})
		for _, name := range []string{used, admitted, allowed, refused} {
			require.Empty(f.t, f.points(name))
		}
	})
	bubble(t, "the count of refused calls goes on when the window of a scope begins again", func(f *fixture) {
		cfg := spending
		cfg.Scopes = []watchdog.SharedSpend{cfg.Scopes[0]}
		cfg.Scopes[0].Period = watchdog.PeriodHour
		wd := f.attach(cfg)
		admit(f, wd, watchdog.Amount{Cost: euros(900_000)})
		requireRefused(f, wd, watchdog.Amount{Cost: euros(200_000)})
		after(2 * time.Hour)
		admit(f, wd, watchdog.Amount{Cost: euros(200_000)})
		require.EqualValues(f.t, 1, f.count(refused, limit("cost")))
		require.EqualValues(f.t, 200_000, f.count(used, limit("cost"))+f.count(admitted, limit("cost")))
	})
	bubble(t, "what a run repeats is a trip and no spend", func(f *fixture) {
		wd := f.attach(laddered)
		for range 4 {
			wd.Step(loop.Step{Tool: "grep", Input: []byte(`{}`), Outcome: []byte("nothing")})
		}
		synctest.Wait()
		require.NotZero(f.t, f.count("watchdog.trips.total", reason(watchdog.LoopDetected)))
		require.Empty(f.t, f.points(used))
	})
	t.Run("runs can end while they are measured, and no refused call is lost", func(t *testing.T) {
		const runs = 40
		f := newFixture(t)
		var all sync.WaitGroup
		for n := range runs {
			all.Go(func() {
				wd, err := f.instrument.Attach(context.Background(), watchdog.Run{ID: fmt.Sprint("s-", n)}, watchdog.Config{
					SpendStore: f.store, Budget: spending.Budget, Logger: quiet,
				})
				if err != nil {
					t.Error(err)
					return
				}
				_, err = wd.Admit(context.Background(), "", watchdog.Amount{InputTokens: 1001})
				if err == nil {
					t.Error("a call was not refused")
				}
				wd.Close()
			})
		}
		last := int64(0)
		for range 50 {
			n := f.count(refused)
			require.GreaterOrEqual(t, n, last, "a counter never goes back")
			last = n
		}
		all.Wait()
		require.EqualValues(t, runs, f.count(refused))
	})
}
