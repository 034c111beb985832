package replay_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/taxonomy"
	"github.com/seed62658d38/watchdog/internal/taxonomy/taxonomytest"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const minute = time.Minute

// traced has a run live on the bubble's own clock, and returns its trace, which goes through JSON.
func traced(t *testing.T, cfg watchdog.Config, live func(wd *watchdog.Watchdog)) (trace []watchdog.Signal) {
	t.Helper()
	var told []watchdog.Signal
	cfg.OnSignal = func(s watchdog.Signal) { told = append(told, s) }
	synctest.Test(t, func(t *testing.T) {
		cfg.Store, cfg.Logger = &watchdog.Memory{}, slog.New(slog.DiscardHandler)
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
		require.NoError(t, err)
		defer wd.Close()
		live(wd)
	})
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

// after lets time pass and everything happen that it sets off.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func many(kind watchdog.DirectiveKind, n int) []watchdog.DirectiveKind {
	return slices.Repeat([]watchdog.DirectiveKind{kind}, n)
}

// TestAmounts has each number of an amount count for its own limit, and for that alone.
func TestAmounts(t *testing.T) {
	kinds := taxonomy.Counts[:reflect.TypeFor[watchdog.Totals]().NumField()]
	used := watchdog.Amount{Tool: "grep", Result: watchdog.ResultError}
	for i, count := range kinds {
		if count.Name != "tokens" {
			*taxonomytest.Of(&used, count) = int64(10 + i)
		}
	}
	trace := []watchdog.Signal{
		{Kind: watchdog.SignalAttach},
		{Kind: watchdog.SignalAdmit, At: minute, Amount: &watchdog.Amount{}},
		{Kind: watchdog.SignalSettle, At: 2 * minute, Amount: &used},
		{Kind: watchdog.SignalEnd, At: 3 * minute},
	}
	for i, count := range kinds {
		t.Run(count.Name, func(t *testing.T) {
			used := int64(10 + i)
			if count.Name == "tokens" {
				used = 10 + 11
			}
			for most, trips := range map[int64]int{used: 0, used - 1: 1} {
				of := taxonomytest.Spend(count, most)
				of.WarnAt = []float64{}
				got := replayOf(t, watchdog.Budget{Spend: of}, trace)
				require.Len(t, got, trips)
				for _, d := range got {
					require.Equal(t, watchdog.DirectiveCancel, d.Kind)
					require.Equal(t, count.Name, d.Usage.Limit)
					require.Equal(t, used, d.Usage.Used)
				}
			}
		})
	}
}

func TestLateRelease(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{}}, PollOnly: true}
	trace := traced(t, cfg, func(wd *watchdog.Watchdog) {
		h, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: minute})
		require.NoError(t, err)
		after(2 * minute)
		h.Close()
		require.ErrorIs(t, wd.Stop(), watchdog.HoldExceeded)
	})
	decisions := replayOf(t, cfg.Budget, trace) // a trace ends with its decision; the release came too late
	require.Len(t, decisions, 1)
	require.Equal(t, "tool", decisions[0].Hold)
}

func TestBusy(t *testing.T) {
	var busy atomic.Bool
	cfg := watchdog.Config{Busy: busy.Load, Budget: watchdog.Budget{
		WallClock: watchdog.NoLimit, Idle: 10 * minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveRetry, 1)},
	}}
	trace := traced(t, cfg, func(wd *watchdog.Watchdog) {
		for _, is := range []bool{true, false, true, false} {
			busy.Store(is)
			after(10*minute + 1)
		}
		require.ErrorIs(t, wd.Stop(), watchdog.IdleExceeded)
	})
	decisions := replayOf(t, cfg.Budget, trace)
	require.Len(t, decisions, 2, "nothing came of the trips that a busy host put off")
	require.Equal(t, 20*minute+2, decisions[0].At)
	require.Equal(t, 40*minute+4, decisions[1].At)
	decisions = replayOf(t, watchdog.Budget{WallClock: watchdog.NoLimit, Idle: 5 * minute}, trace)
	require.Len(t, decisions, 1, "under a shorter limit it would have been asked earlier")
	require.Equal(t, 15*minute+2, decisions[0].At)
}

func TestTakeOver(t *testing.T) {
	trace := []watchdog.Signal{
		{Kind: watchdog.SignalAttach, At: time.Hour},
		{Kind: watchdog.SignalHeld, At: time.Hour, From: minute, Key: "approval", Length: 24 * time.Hour},
		{Kind: watchdog.SignalTakeOver, At: 2 * time.Hour, Key: "approval", Idle: 10 * minute},
		{Kind: watchdog.SignalEnd, At: 3 * time.Hour},
	}
	got := replayOf(t, watchdog.Budget{Idle: minute}, trace)
	require.Len(t, got, 1)
	require.Equal(t, 2*time.Hour+10*minute+1, got[0].At)
	require.Equal(t, "approval", got[0].Hold)
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
