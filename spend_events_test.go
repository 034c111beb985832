package watchdog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestSpendEventGoldens holds the events of counted limits to the byte.
func TestSpendEventGoldens(t *testing.T) {
	spent := func(limits watchdog.Spend, ladders watchdog.Ladders, amounts ...watchdog.Amount) func(b *fixture) {
		return func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{Spend: limits, Ladders: ladders}
			wd := b.attach()
			wd.Note("tool: grep")
			b.pass(90 * time.Second)
			for _, amount := range amounts {
				if c, err := wd.Admit(context.Background(), "", amount); err == nil {
					require.NoError(b.t, c.Settle(amount))
				}
			}
		}
	}
	ten := watchdog.Spend{Requests: 10, Reserve: watchdog.Totals{Requests: 2}}
	for name, c := range map[string]struct {
		kind   string
		happen func(b *fixture)
	}{
		"cancel_cost": {watchdog.EventCancel, spent(watchdog.Spend{Cost: euros(5_000_000)}, watchdog.Ladders{},
			watchdog.Amount{Cost: euros(4_000_000)}, watchdog.Amount{Cost: euros(1_000_001)})},
		"cancel_tool": {watchdog.EventCancel, spent(watchdog.Spend{Tools: map[string]int64{"rm": 1}}, watchdog.Ladders{},
			watchdog.Amount{ToolCalls: 1, Tool: "rm"}, watchdog.Amount{ToolCalls: 1, Tool: "rm"})},
		"warning_requests": {watchdog.EventWarning, spent(watchdog.Spend{Requests: 10}, watchdog.Ladders{}, requests(8))},
		"wrap_up_requests": {watchdog.EventWrapUp, spent(ten, watchdog.Ladders{}, requests(7), requests(2))},
		"decision_requests": {watchdog.EventWarning, spent(watchdog.Spend{Requests: 10, WarnAt: []float64{}}, watchdog.Ladders{
			Requests: many(watchdog.DirectiveWait, 1),
		}, requests(7), requests(4))},
		"extend_requests": {watchdog.EventExtend, func(b *fixture) {
			spent(watchdog.Spend{Requests: 10}, watchdog.Ladders{}, requests(7))(b)
			wd := b.resume()
			require.NoError(b.t, wd.ExtendSpend(watchdog.Spend{Requests: 5}))
		}},
	} {
		t.Run(name, func(t *testing.T) { goldenEvent(t, name, c.kind, c.happen) })
	}
}
