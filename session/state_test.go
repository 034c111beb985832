package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/session"
)

// A spending run shares one limit with others and has the rest of its own.
func (f *fixture) attachSpending(spend watchdog.Spend) *watchdog.Watchdog {
	f.Helper()
	cfg := f.config(f.keeper())
	cfg.SpendStore, cfg.Budget.Spend = &watchdog.Memory{}, spend
	cfg.Scopes = []watchdog.SharedSpend{{
		Scope: "tenant-7", Spend: watchdog.Spend{Cost: watchdog.Money{Micros: 6_400_000, Currency: "EUR"}},
	}}
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
	require.NoError(f, err)
	f.Cleanup(func() { wd.Close() })
	return wd
}

func (f *fixture) state(runID string) (s session.State) {
	f.Helper()
	require.NoError(f, json.Unmarshal(f.row(runID).State, &s))
	return s
}

func TestSpendInRow(t *testing.T) {
	subtest(t, "shows what a run has used, with the activity that is written anyway", func(f *fixture) {
		f.start()
		wd := f.attachSpending(watchdog.Spend{Tokens: 1000, Tools: map[string]int64{"bash": 5}})
		bash := watchdog.Amount{
			InputTokens: 100, ToolCalls: 1, Tool: "bash", Cost: watchdog.Money{Micros: 50_000, Currency: "EUR"},
		}
		charge, err := wd.Admit(context.Background(), "", bash)
		require.NoError(f, err)
		require.NoError(f, charge.Settle(bash))
		_, err = wd.Admit(context.Background(), "", watchdog.Amount{OutputTokens: 30})
		require.NoError(f, err)
		f.advance(time.Minute)
		wd.Activity()
		f.advance(time.Minute + awake)
		require.Equal(f, []session.Spent{
			{Limit: "tokens", Used: 100, Admitted: 30, Allowed: 1000},
			{Limit: "tool_calls", Tool: "bash", Used: 1, Allowed: 5},
			{Limit: "cost", Scope: "tenant-7", Currency: "EUR", Used: 50_000, Allowed: 6_400_000},
		}, f.state("s-1").Spent)
		require.JSONEq(f, `{"wall_clock_seconds":14400,"spent":[
			{"limit":"tokens","used":100,"admitted":30,"allowed":1000},
			{"limit":"tool_calls","tool":"bash","used":1,"allowed":5},
			{"limit":"cost","scope":"tenant-7","currency":"EUR","used":50000,"allowed":6400000}
		]}`, string(f.row("s-1").State))
	})
	subtest(t, "says where the run is warned and what is kept for wrapping up", func(f *fixture) {
		f.start()
		wd := f.attachSpending(watchdog.Spend{
			Tokens: 1000, CallInput: 500, Requests: 20, Reserve: watchdog.Totals{Tokens: 100}, WarnAt: []float64{0.9, 0.5},
		})
		wd.Step(loop.Step{Tool: "grep"})
		f.advance(time.Minute)
		wd.Activity()
		f.advance(time.Minute + awake)
		require.Equal(f, []session.Spent{
			{Limit: "tokens", Allowed: 1000, Reserve: 100, WarnAt: []float64{0.5, 0.9}},
			{Limit: "call_input", Allowed: 500, WarnAt: []float64{}},
			{Limit: "requests", Allowed: 20, WarnAt: []float64{0.5, 0.9}},
			{Limit: "cost", Scope: "tenant-7", Currency: "EUR", Allowed: 6_400_000},
		}, f.state("s-1").Spent, "and what it repeats is not among them")
	})
	subtest(t, "has a bounded number of warnings", func(f *fixture) {
		f.start()
		var at []float64
		for n := range 100 {
			at = append(at, float64(n+1)/101)
		}
		wd := f.attachSpending(watchdog.Spend{Tokens: 1000, WarnAt: at})
		f.advance(time.Minute)
		wd.Activity()
		f.advance(time.Minute + awake)
		require.Equal(f, at[len(at)-session.MaxWarnAt:], f.state("s-1").Spent[0].WarnAt, "those nearest to the limit")
	})
	subtest(t, "is not written for spend alone", func(f *fixture) {
		f.start()
		wd := f.attachSpending(watchdog.Spend{Tokens: 1000})
		f.advance(time.Minute)
		wd.Activity()
		f.advance(2 * time.Minute)
		f.db.takeCounts()
		for range 100 {
			charge, err := wd.Admit(context.Background(), "", watchdog.Amount{InputTokens: 1})
			require.NoError(f, err)
			require.NoError(f, charge.Settle(watchdog.Amount{InputTokens: 1}))
			f.advance(time.Second)
		}
		calls, written := f.db.takeCounts()
		require.Zero(f, calls["Freshen"])
		require.Zero(f, written)
	})
	subtest(t, "has a bounded number of limits and says how many more there are", func(f *fixture) {
		f.start()
		tools := map[string]int64{}
		for n := range session.MaxSpent + 2 {
			tools[fmt.Sprintf("tool-%02d", n)] = 1
		}
		wd := f.attachSpending(watchdog.Spend{Tools: tools})
		f.advance(time.Minute)
		wd.Activity()
		f.advance(time.Minute + awake)
		state := f.state("s-1")
		require.Len(f, state.Spent, session.MaxSpent)
		require.Equal(f, "tool-15", state.Spent[session.MaxSpent-1].Tool)
		require.Equal(f, 3, state.MoreSpent, "two tools and the scope")
	})
	subtest(t, "of a run without counted limits says nothing of spend", func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		_, err := wd.Admit(context.Background(), "", watchdog.Amount{InputTokens: 1})
		require.NoError(f, err)
		f.advance(time.Minute)
		wd.Activity()
		f.advance(time.Minute + awake)
		require.JSONEq(f, `{"wall_clock_seconds":14400}`, string(f.row("s-1").State))
	})
}

func TestRunState(t *testing.T) {
	inBubble(t, func(f *fixture) {
		probes := 0
		f.cfg.RunState = func(w *watchdog.Watchdog, s *session.State) { s.Idle, s.Phase = 60, fmt.Sprint(w.ID(), " ", probes) }
		f.start()
		wd := f.attach("s-1")
		require.JSONEq(t, `{"wall_clock_seconds":14400,"idle_seconds":60,"phase":"s-1 0"}`, string(f.row("s-1").State))
		f.advance(2 * time.Minute)
		probes++
		wd.Activity()
		f.advance(awake)
		require.Equal(t, "s-1 1", f.state("s-1").Phase, "with the activity")
	})
	subtest(t, "of a run without signs of life is written when the host says that it has changed", func(f *fixture) {
		var ending *session.Escalation
		f.cfg.RunState = func(_ *watchdog.Watchdog, s *session.State) { s.Escalation = ending }
		f.start()
		wd := f.attach("s-1")
		f.advance(time.Hour) // it is dormant
		now := time.Now().UTC()
		ending = &session.Escalation{Signal: "SIGINT", SentAt: now, Next: "SIGTERM", NextAt: now.Add(10 * time.Second)}
		f.keeper().Refresh("s-1")
		f.keeper().Refresh("unknown")
		f.advance(session.DefaultPace)
		require.Equal(f, ending, f.state("s-1").Escalation)
		require.Equal(f, session.NoActivity, f.row("s-1").Activity, "it is no sign of life")
		f.db.takeCounts()
		f.advance(time.Minute)
		calls, _ := f.db.takeCounts()
		require.Zero(f, calls["Freshen"], "once")
		f.db.onCall(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		for range 2 {
			begun := time.Now()
			f.keeper().Refresh("s-1")
			require.Zero(f, time.Since(begun), "while the database hangs, too")
			f.advance(session.DefaultPace)
		}
		f.db.onCall(nil)
		f.advance(time.Minute)
		_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput})
		require.NoError(f, err)
		require.NoError(f, wd.Close())
		require.Equal(f, session.Cancelled, f.row("s-1").Status)
		require.Nil(f, f.state("s-1").Escalation, "it is not ending any more")
	})
}
