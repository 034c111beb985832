package replay_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/replay"
)

// traced has a run live with a trace, which goes through JSON.
func traced(t *testing.T, cfg watchdog.Config, live func(wd *watchdog.Watchdog)) (trace []watchdog.Signal) {
	t.Helper()
	var told []watchdog.Signal
	cfg.OnSignal = func(s watchdog.Signal) { told = append(told, s) }
	inBubble(t, cfg, live)
	text, err := json.Marshal(told)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &trace))
	return trace
}

func replayOf(t *testing.T, budget watchdog.Budget, trace []watchdog.Signal) []replay.Decision {
	t.Helper()
	decisions, err := replay.Run(budget, trace, false)
	require.NoError(t, err, traceText(trace))
	return decisions
}

// TestTakenBack protects that a run which another process had extended is not cancelled in its replay, and one under
// other limits is.
func TestTakenBack(t *testing.T) {
	store := &watchdog.Memory{}
	budget := watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{}}
	var trace []watchdog.Signal
	synctest.Test(t, func(t *testing.T) {
		attach := func(cfg watchdog.Config) *watchdog.Watchdog {
			cfg.Store, cfg.Budget = store, budget
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
			require.NoError(t, err)
			return wd
		}
		wd := attach(watchdog.Config{OnSignal: func(s watchdog.Signal) { trace = append(trace, s) }})
		operator := attach(watchdog.Config{})
		require.NoError(t, operator.Extend(30*minute))
		require.NoError(t, operator.Close())
		after(time.Hour + minute)
		require.NoError(t, wd.Context().Err())
		after(30 * minute)
		require.Error(t, wd.Context().Err())
	})
	decisions := replayOf(t, budget, trace)
	require.Len(t, decisions, 1)
	require.Equal(t, 90*minute+1, decisions[0].At)
	decisions = replayOf(t, watchdog.Budget{WallClock: 40 * minute, WarnAt: []float64{}}, trace)
	require.Len(t, decisions, 1, "nobody knows what the store would have said")
	require.Equal(t, 40*minute+1, decisions[0].At)
}

// TestStepsAreTraced protects that loops are in the trace.
func TestStepsAreTraced(t *testing.T) {
	trace := traced(t, watchdog.Config{}, func(wd *watchdog.Watchdog) {
		wd.Subscribe(func(watchdog.Directive) {})
		for range 10 {
			wd.Step(loop.Step{Tool: "grep", Input: []byte(`{}`), Outcome: []byte(`{}`), Class: loop.Look})
			after(minute)
		}
		require.ErrorIs(t, wd.Stop(), watchdog.LoopDetected)
	})
	var kinds []watchdog.DirectiveKind
	for _, d := range replayOf(t, watchdog.Budget{}, trace) {
		require.Equal(t, watchdog.LoopDetected, d.Reason)
		require.NotEmpty(t, d.Usage.Pattern)
		kinds = append(kinds, d.Kind)
	}
	require.Equal(t, []watchdog.DirectiveKind{watchdog.DirectiveUnstuck, watchdog.DirectiveCancel}, kinds)
	again := watchdog.Budget{Ladders: watchdog.Ladders{Loop: many(watchdog.DirectiveWait, 1)}}
	require.Len(t, replayOf(t, again, trace), 1)
}

// TestLayerAlone protects that a layer is replayed by its own signals, under the budget in the first.
func TestLayerAlone(t *testing.T) {
	trace := traced(t, watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour}}, func(wd *watchdog.Watchdog) {
		after(minute)
		ladder := watchdog.Ladders{Idle: many(watchdog.DirectiveRetry, 1)}
		step, err := wd.Layer("build", watchdog.Budget{Idle: 5 * minute, Ladders: ladder})
		require.NoError(t, err)
		ladder.Idle[0] = "changed by the host"
		after(20 * minute)
		require.ErrorIs(t, step.Stop(), watchdog.IdleExceeded)
	})
	var own []watchdog.Signal
	for _, s := range trace {
		if s.Run == "s-1/build" {
			own = append(own, s)
		}
	}
	require.Equal(t, watchdog.TraceVersion, own[0].Version)
	require.Equal(t, 59*minute, own[0].Budget.WallClock, "what it got")
	decisions := replayOf(t, *own[0].Budget, own)
	require.Len(t, decisions, 2)
	require.Equal(t, watchdog.DirectiveRetry, decisions[0].Kind)
	require.Equal(t, 10*minute+2, decisions[1].At)
	require.Empty(t, replayOf(t, watchdog.Budget{WallClock: time.Hour}, trace), "those of the run are its own")
}

// TestRefusedInside protects that a call which a layer refuses is not one of the run around it.
func TestRefusedInside(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 10, WarnAt: []float64{}}}}
	trace := traced(t, cfg, func(wd *watchdog.Watchdog) {
		step, err := wd.Layer("build", watchdog.Budget{
			Spend: watchdog.Spend{Requests: 3}, Ladders: watchdog.Ladders{Requests: many(watchdog.DirectiveWait, 1)},
		})
		require.NoError(t, err)
		_, err = step.Admit(context.Background(), "", watchdog.Amount{Requests: 20})
		require.ErrorIs(t, err, watchdog.RequestsExceeded)
		require.NoError(t, wd.Context().Err())
	})
	require.Empty(t, replayOf(t, cfg.Budget, trace), "the run was not asked")
}

func TestVersions(t *testing.T) {
	later := []watchdog.Signal{{Kind: watchdog.SignalAttach, Version: watchdog.TraceVersion + 1}}
	_, err := replay.Run(watchdog.Budget{}, later, false)
	require.ErrorIs(t, err, watchdog.ErrInvalid)
	require.ErrorContains(t, err, "signal 0 (attach at 0s) is of version 3")
	require.ErrorContains(t, err, "replay it with the release of this module that wrote it")
}

// TestFailedComplete protects that a limit which is exceeded while a Complete is tried is one of when that has failed.
func TestFailedComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trace []watchdog.Signal
		store := &slowMemory{}
		budget := watchdog.Budget{Idle: minute}
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: store, Budget: budget, OnSignal: func(s watchdog.Signal) { trace = append(trace, s) },
		})
		require.NoError(t, err)
		after(minute - time.Second)
		store.fails.Store(true)
		failed := make(chan error, 1)
		go func() { failed <- wd.Complete() }()
		after(500 * time.Millisecond)
		require.Error(t, <-failed)
		store.fails.Store(false)
		require.NoError(t, wd.Close())
		synctest.Wait()
		end := trace[len(trace)-1].At
		require.Greater(t, end, minute)
		decisions := replayOf(t, budget, trace)
		require.Len(t, decisions, 1, traceText(trace))
		require.Equal(t, end, decisions[0].At)
		require.Equal(t, watchdog.IdleExceeded, decisions[0].Reason)
	})
}
