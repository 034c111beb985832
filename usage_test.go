package watchdog_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestUsage(t *testing.T) {
	t.Run("nothing remains where more was used than is allowed", func(t *testing.T) {
		require.Zero(t, watchdog.Usage{Used: 7, Admitted: 5, Allowed: 10}.Remaining())
		require.Zero(t, watchdog.Usage{Used: watchdog.NoLimit, Admitted: watchdog.NoLimit, Allowed: 10}.Remaining())
		require.EqualValues(t, 1, watchdog.Usage{Used: 7, Admitted: 2, Allowed: 10}.Remaining())
	})
	t.Run("its text names the tool", func(t *testing.T) {
		text := watchdog.Usage{Limit: "tool_calls", Tool: "rm", Used: 1, Allowed: 2}.String()
		require.Equal(t, `tool calls of "rm": 1 of 2 used`, text)
	})
	t.Run("it is that of now after a call was refused", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			f.cfg.Budget.Spend = watchdog.Spend{Tokens: 10, WarnAt: []float64{}}
			wd := f.attach()
			open := admit(t, wd, tokens(2, 2))
			admit(t, wd, tokens(2, 2))
			refuse(t, wd, tokens(2, 2))
			require.NoError(t, open.Settle(tokens(1, 2)))
			usage := wd.Usage()[0]
			require.EqualValues(t, 3, usage.Used)
			require.EqualValues(t, 4, usage.Admitted)
			f.pass(0)
			var stop *watchdog.Stop
			require.ErrorAs(t, context.Cause(wd.Context()), &stop)
			require.EqualValues(t, 8, stop.Usage.Admitted, "when the call was refused")
		})
	})
}

// TestExtendSpendBudget protects the event of an extension of a run that has no wall clock, or no limits at all.
func TestExtendSpendBudget(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget = watchdog.Budget{WallClock: watchdog.NoLimit, Spend: watchdog.Spend{Requests: 5}}
		require.NoError(t, f.attach().ExtendSpend(watchdog.Spend{Requests: 1}))
		var payload map[string]any
		require.NoError(t, json.Unmarshal(f.events(watchdog.EventExtend)[0].Payload, &payload))
		require.EqualValues(t, 0, payload["configured_budget_seconds"])
		f.cfg.Disabled = true
		require.NoError(t, f.attach().ExtendSpend(watchdog.Spend{Turns: 1}), "of a run that is disabled")
	})
}

// TestSpendLadderProgress protects a ladder from progress that was made before its last directive.
func TestSpendLadderProgress(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 5, WarnAt: []float64{}}
		f.cfg.Budget.Ladders.Requests = many(watchdog.DirectiveRetry, 3)
		wd := f.attach()
		f.pass(time.Second)
		wd.Progress()
		for range 2 {
			f.pass(time.Second)
			refuse(t, wd, requests(6))
			f.pass(0)
		}
		require.Equal(t, []string{"retry 1", "retry 2"}, polled(wd))
		wd.Progress()
		f.pass(time.Second)
		refuse(t, wd, requests(6))
		f.pass(0)
		require.Equal(t, []string{"retry 1"}, polled(wd), "after progress")
	})
}
