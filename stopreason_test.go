package watchdog_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

func TestStopReasons(t *testing.T) {
	t.Run("codes are snake_case, known, and there once", func(t *testing.T) {
		seen := map[watchdog.StopReason]bool{}
		for _, reason := range watchdog.StopReasons() {
			require.Regexp(t, `^[a-z]+(_[a-z]+)+$`, string(reason))
			require.True(t, reason.Known())
			require.False(t, seen[reason], reason)
			seen[reason] = true
		}
		require.False(t, watchdog.StopReason("").Known())
		require.False(t, watchdog.StopReason("other_reason").Known())
	})
	t.Run("the host's eight come first, then the watchdog's own", func(t *testing.T) {
		require.Equal(t, []watchdog.StopReason{
			"interview_max_rounds_exhausted", "interview_unsafe_gaps_remain", "interview_phase_deadline", "iteration_timeout",
			"wall_clock_exhausted", "oscillation_detected", "grade_regressing", "max_generations_reached", "watchdog_wall_clock_exceeded",
		}, watchdog.StopReasons()[:9])
		for i, reason := range watchdog.StopReasons() {
			require.Equal(t, i >= 8, reason.Own(), reason)
		}
	})
	t.Run("the watchdog's own are those of their reasons in events, and a host's is its own reason", func(t *testing.T) {
		for _, reason := range watchdog.StopReasons() {
			require.Equal(t, string(reason), record.Code(record.Reason(string(reason))))
			require.Equal(t, reason.Own(), record.Reason(string(reason)) != string(reason))
		}
	})
	t.Run("docs/events-codes.md lists the set and nothing else, those of hosts last", func(t *testing.T) {
		text, err := os.ReadFile("docs/events-codes.md")
		require.NoError(t, err)
		var listed []watchdog.StopReason
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ").FindAllSubmatch(text, -1) {
			listed = append(listed, watchdog.StopReason(row[1]))
		}
		all := watchdog.StopReasons()
		require.Equal(t, slices.Concat(all[8:], all[:8]), listed)
	})
	t.Run("docs/events.md lists every kind of event", func(t *testing.T) {
		text, err := os.ReadFile("docs/events.md")
		require.NoError(t, err)
		for _, kind := range []string{
			watchdog.EventCancel, watchdog.EventResume, watchdog.EventExtend, watchdog.EventWarning, watchdog.EventInterrupt, watchdog.EventWait,
			watchdog.EventOverrun,
		} {
			require.Contains(t, string(text), "`"+kind+"`")
		}
	})
}

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
	runFixture(t, "it is that of now after a call was refused", func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Tokens: 10, WarnAt: []float64{}}
		wd := f.attach()
		open := admit(f.t, wd, tokens(2, 2))
		admit(f.t, wd, tokens(2, 2))
		refuse(f.t, wd, tokens(2, 2))
		require.NoError(f.t, open.Settle(tokens(1, 2)))
		usage := wd.Usage()[0]
		require.EqualValues(f.t, 3, usage.Used)
		require.EqualValues(f.t, 4, usage.Admitted)
		f.pass(0)
		var stop *watchdog.Stop
		require.ErrorAs(f.t, context.Cause(wd.Context()), &stop)
		require.EqualValues(f.t, 8, stop.Usage.Admitted, "when the call was refused")
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
