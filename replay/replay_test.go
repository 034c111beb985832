package replay_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
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
	"github.com/seed62658d38/watchdog/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const minute = time.Minute

func randomLadder(rng *rand.Rand) (l []watchdog.DirectiveKind) {
	for range rng.IntN(3) {
		all := []watchdog.DirectiveKind{watchdog.DirectiveWait, watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}
		l = append(l, all[rng.IntN(len(all))])
	}
	return l
}

// inBubble guards a run on the bubble's own clock.
func inBubble(t *testing.T, cfg watchdog.Config, test func(wd *watchdog.Watchdog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Store, cfg.Logger = &watchdog.Memory{}, slog.New(slog.DiscardHandler)
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
		require.NoError(t, err)
		defer wd.Close()
		test(wd)
	})
}

// after lets time pass and everything happen that it sets off.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func many(kind watchdog.DirectiveKind, n int) []watchdog.DirectiveKind {
	return slices.Repeat([]watchdog.DirectiveKind{kind}, n)
}

func TestOtherLimits(t *testing.T) {
	trace := []watchdog.Signal{
		{Kind: watchdog.SignalAttach},
		{Kind: watchdog.SignalActivity, At: 4 * minute},
		{Kind: watchdog.SignalActivity, At: 20 * minute},
		{Kind: watchdog.SignalEnd, At: 30 * minute},
	}
	for idle, want := range map[time.Duration][]replay.Decision{
		15 * minute: {{At: 19*minute + 1, Kind: watchdog.DirectiveCancel, Reason: watchdog.IdleExceeded, Rung: 1, Used: 15*minute + 1, Allowed: 15 * minute}},
		16 * minute: nil,
	} {
		got, err := replay.Run(watchdog.Budget{Idle: idle}, trace, false)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := replay.Run(watchdog.Budget{Idle: -1}, trace, false)
	require.ErrorIs(t, err, watchdog.ErrInvalid)
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
				got, err := replay.Run(watchdog.Budget{Spend: of}, trace, false)
				require.NoError(t, err)
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

func TestLateAttach(t *testing.T) {
	trace := []watchdog.Signal{
		{Kind: watchdog.SignalAttach, At: 3 * time.Hour, Length: time.Hour, Warned: 1},
		{Kind: watchdog.SignalEnd, At: 3*time.Hour + 10*minute},
	}
	got, err := replay.Run(watchdog.Budget{WallClock: 3 * time.Hour, Idle: 10 * minute}, trace, false)
	require.NoError(t, err)
	require.Empty(t, got, "what was before the attach is no silence, the window was extended, and its warning given")
}

func TestLayers(t *testing.T) {
	var trace []watchdog.Signal
	cfg := watchdog.Config{
		Budget:   watchdog.Budget{WallClock: time.Hour, Idle: 10 * minute},
		OnSignal: func(s watchdog.Signal) { trace = append(trace, s) },
	}
	inBubble(t, cfg, func(wd *watchdog.Watchdog) {
		after(5 * minute)
		step, err := wd.Layer("build", watchdog.Budget{})
		require.NoError(t, err)
		for _, run := range []*watchdog.Watchdog{wd, step} {
			h, err := run.Hold(context.Background(), "tool", watchdog.HoldLimit{})
			require.NoError(t, err)
			defer h.Close()
		}
		after(5 * minute)
		step.Activity()
		require.NoError(t, step.Close())
		after(56 * minute)
		require.ErrorIs(t, wd.Stop(), watchdog.WallClockExceeded)
	})
	decisions, err := replay.Run(cfg.Budget, trace, false)
	require.NoError(t, err, "the trace is the run's; what its layers signal is in it, once")
	require.Len(t, decisions, 2, "a warning and the cancel")
	require.Equal(t, watchdog.WallClockExceeded, decisions[1].Reason)
}

func TestLateRelease(t *testing.T) {
	var trace []watchdog.Signal
	cfg := watchdog.Config{
		Budget: watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{}}, PollOnly: true,
		OnSignal: func(s watchdog.Signal) { trace = append(trace, s) },
	}
	inBubble(t, cfg, func(wd *watchdog.Watchdog) {
		h, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: minute})
		require.NoError(t, err)
		after(2 * minute)
		h.Close()
		require.ErrorIs(t, wd.Stop(), watchdog.HoldExceeded)
	})
	decisions, err := replay.Run(cfg.Budget, trace, false)
	require.NoError(t, err, "a trace ends with its decision; the release came too late")
	require.Len(t, decisions, 1)
	require.Equal(t, "tool", decisions[0].Hold)
}

func TestBusy(t *testing.T) {
	var trace []watchdog.Signal
	var busy atomic.Bool
	busy.Store(true)
	cfg := watchdog.Config{
		Budget: watchdog.Budget{
			WallClock: watchdog.NoLimit, Idle: 10 * minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveRetry, 1)},
		},
		OnSignal: func(s watchdog.Signal) { trace = append(trace, s) },
		Busy:     busy.Load,
	}
	inBubble(t, cfg, func(wd *watchdog.Watchdog) {
		after(10*minute + 1)
		busy.Store(false)
		after(10*minute + 1)
		busy.Store(true)
		after(10*minute + 1)
		busy.Store(false)
		after(10*minute + 1)
		require.ErrorIs(t, wd.Stop(), watchdog.IdleExceeded)
	})
	decisions, err := replay.Run(cfg.Budget, trace, false)
	require.NoError(t, err)
	require.Len(t, decisions, 2, "nothing came of the trips that a busy host put off")
	require.Equal(t, 20*minute+2, decisions[0].At)
	require.Equal(t, 40*minute+4, decisions[1].At)
	decisions, err = replay.Run(watchdog.Budget{WallClock: watchdog.NoLimit, Idle: 5 * minute}, trace, false)
	require.NoError(t, err)
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
	got, err := replay.Run(watchdog.Budget{Idle: minute}, trace, false)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, 2*time.Hour+10*minute+1, got[0].At)
	require.Equal(t, "approval", got[0].Hold)
}
