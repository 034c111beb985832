package replay_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
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

var lifeSeed = flag.Int64("life", -1, "the seed of the one life that TestReplayIsLife compares")

// TestReplayIsLife has sessions with layers live through random histories, and expects that the replay of what was
// traced of each run, under the budget that it had, decides what the host was told: 600, or 10,000 with
// WATCHDOG_LONG=1. A failure names the seed; -life replays it.
func TestReplayIsLife(t *testing.T) {
	var runs, decisions atomic.Int64
	inLives(t, racing.Rounds[uint64](600, 10_000), func(t *testing.T, seed uint64) {
		l := newLife(seed, true)
		l.live()
		for _, told := range l.compared(t) {
			runs.Add(1)
			decisions.Add(int64(len(told)))
		}
	})
	t.Logf("%d runs, %d decisions", runs.Load(), decisions.Load())
}

// inLives lives so many lives, each in a bubble.
func inLives(t *testing.T, n uint64, live func(t *testing.T, seed uint64)) {
	t.Helper()
	if *lifeSeed >= 0 {
		synctest.Test(t, func(t *testing.T) { live(t, uint64(*lifeSeed)) })
		return
	}
	var next atomic.Uint64
	t.Run("lives", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed < n && !t.Failed(); seed = next.Add(1) - 1 {
					synctest.Test(t, func(t *testing.T) { live(t, seed) })
				}
			})
		}
	})
}

// compared compares what the runs were told with what the replays of their traces decide. It returns the decisions.
func (l *life) compared(t *testing.T) (all map[string][]string) {
	text, err := json.Marshal(l.trace)
	require.NoError(t, err)
	var trace []watchdog.Signal
	require.NoError(t, json.Unmarshal(text, &trace))
	all = map[string][]string{}
	of := map[string][]watchdog.Signal{}
	for _, s := range trace {
		of[s.Run] = append(of[s.Run], s)
	}
	for run, own := range of {
		budget := l.cfg.Budget
		if first := own[0]; first.Budget != nil {
			budget = *first.Budget
		}
		if run == "s-1" {
			own = trace
		}
		decisions, err := replay.Run(budget, own, l.cfg.ObserveOnly)
		require.NoError(t, err, "%s\n%s", run, traceText(own))
		var told, warned []string
		for _, d := range decisions {
			if d.Kind == "" {
				warned = append(warned, warningText(d.Fraction, d.Used, d.Allowed, d.Usage))
				continue
			}
			told = append(told, directiveText(d.Kind, d.Reason, d.Rung, d.Hold, d.Used, d.Allowed, d.Usage, d.At))
		}
		if !slices.Equal(l.told[run], told) || !slices.Equal(l.warned[run], warned) {
			lines := func(all []string) string { return strings.Join(all, "\n ") }
			t.Errorf("seed %d, observed %v, delay %v, run %s\nlived\n %s\n %s\nreplayed\n %s\n %s\nbudget %+v\n%s",
				l.seed, l.cfg.ObserveOnly, l.store.delay, run, lines(l.told[run]), lines(l.warned[run]), lines(told),
				lines(warned), budget, traceText(own))
		}
		all[run] = append(told, warned...)
	}
	return all
}

func traceText(trace []watchdog.Signal) string {
	var b strings.Builder
	for i, s := range trace {
		s.Budget = nil
		line, _ := json.Marshal(s)
		fmt.Fprintf(&b, "%d %v %s\n", i, s.At, line)
	}
	return b.String()
}

// TestTracedAlike has the same random histories happen with and without a trace: the host is told the same, the store
// has the same events but for what is random in them, and the session ends alike.
func TestTracedAlike(t *testing.T) {
	inLives(t, racing.Rounds[uint64](300, 10_000), func(t *testing.T, seed uint64) {
		var lives [2]*life
		for i := range lives {
			time.Sleep(time.Hour - time.Since(time.Now().Truncate(time.Hour))) // both begin at a full hour
			lives[i] = newLife(seed, i == 0)
			// Asked of several runs at one moment Busy answers them in any order, and what fails is tried again at random.
			lives[i].cfg.Busy, lives[i].steady = nil, true
			lives[i].live()
		}
		traced, plain := lives[0], lives[1]
		require.Equal(t, plain.told, traced.told, "seed %d", seed)
		require.Equal(t, plain.warned, traced.warned, "seed %d", seed)
		require.Equal(t, plain.ending(), traced.ending(), "seed %d", seed)
		require.Equal(t, plain.events(t), traced.events(t), "seed %d", seed)
	})
}

// ending is how the session ended.
func (l *life) ending() string {
	var stop *watchdog.Stop
	if cause := context.Cause(l.wd.Context()); !errors.As(cause, &stop) {
		return fmt.Sprint(cause)
	}
	return fmt.Sprint(stop.Code, stop.FiredAt.Sub(l.begun), stop.Elapsed, stop.Budget, stop.Paused, stop.Hold, stop.Rung)
}

// events are those of all runs, without what is random in them and with times since the beginning.
func (l *life) events(t *testing.T) (all []string) {
	for _, run := range append(slices.Sorted(maps.Keys(l.ran)), "s-1") {
		events, err := l.store.Read(t.Context(), watchdog.AggregateType, run)
		require.NoError(t, err)
		for _, e := range events {
			var payload map[string]any
			require.NoError(t, json.Unmarshal(e.Payload, &payload))
			for name, value := range payload {
				text, isText := value.(string)
				at, err := time.Parse(time.RFC3339Nano, text)
				switch {
				case name == "resets":
					payload[name] = len(value.([]any))
				case slices.Contains([]string{"window", "opening"}, name):
					payload[name] = "random"
				case isText && err == nil:
					payload[name] = at.Sub(l.begun).String()
				}
			}
			text, err := json.Marshal(payload)
			require.NoError(t, err)
			all = append(all, fmt.Sprintf("%s %s at %v: %s", run, e.Type, e.Timestamp.Sub(l.begun), text))
		}
	}
	slices.Sort(all)
	return all
}

type signals = []watchdog.Signal

func TestBadTrace(t *testing.T) {
	attach := watchdog.Signal{Kind: watchdog.SignalAttach}
	hold := watchdog.Signal{Kind: watchdog.SignalHold, At: minute, Key: "tool", Length: minute}
	for _, c := range []struct {
		name string
		bad  signals // the last is the flaw
		want string
	}{
		{"an unknown kind", signals{attach, {Kind: "nap"}}, "signal 1 (nap at 0s) is of no kind"},
		{"no kind", signals{{}}, "signal 0 ( at 0s)"},
		{"a later version", signals{{Kind: watchdog.SignalAttach, Version: watchdog.TraceVersion + 1}},
			"signal 0 (attach at 0s) is of version 3 of traces, and this one reads up to 2; " +
				"replay it with the release of this module that wrote it"},
		{"a time before the window", signals{{Kind: watchdog.SignalAttach, At: -1}}, "signal 0 (attach at -1ns)"},
		{"a time that never comes",
			signals{{Kind: watchdog.SignalAttach, At: math.MaxInt64}}, "is later than a window can last"},
		{"a time that goes back",
			signals{attach, hold, {Kind: watchdog.SignalActivity, At: minute - 1}}, "earlier than"},
		{"an attach that goes back", signals{attach, hold, attach}, "signal 2 (attach at 0s) is earlier than"},
		{"a key that is held", signals{attach, hold, hold}, `signal 2 (hold at 1m0s) opens "tool", which is held`},
		{"a key that is not held", signals{attach, {Kind: watchdog.SignalRelease, Key: "tool"}}, `releases "tool"`},
		{"a serial that is not held",
			signals{attach, hold, {Kind: watchdog.SignalRelease, At: minute, Key: "tool", Serial: 1}}, `releases "tool"`},
		{"a hold that an earlier attach had", signals{
			attach, hold, {Kind: watchdog.SignalAttach, At: minute}, {Kind: watchdog.SignalRelease, At: minute, Key: "tool"},
		}, "signal 3"},
		{"a hold without a cap", signals{attach, {Kind: watchdog.SignalHold, Key: "tool"}}, "has no cap"},
		{"a negative cap", signals{attach, {Kind: watchdog.SignalHold, Key: "tool", Length: -1}}, "the length -1ns"},
		{"a negative idle",
			signals{attach, {Kind: watchdog.SignalHold, Key: "tool", Length: 1, Idle: -1}}, "the idle -1ns"},
		{"a key that is taken over and not held",
			signals{attach, {Kind: watchdog.SignalTakeOver, Key: "tool"}}, `takes over "tool", which is not held`},
		{"a negative extension", signals{attach, {Kind: watchdog.SignalExtend, Length: math.MinInt64}}, "the length"},
		{"a negative number of warnings", signals{{Kind: watchdog.SignalAttach, Warned: -1}}, "has -1 warnings"},
		{"a signal after the end",
			signals{attach, {Kind: watchdog.SignalEnd}, {Kind: watchdog.SignalActivity}}, "after the run's end"},
	} {
		t.Run(c.name+" is an error that names the position", func(t *testing.T) {
			for _, observeOnly := range []bool{false, true} {
				got, err := replay.Run(watchdog.Budget{WallClock: time.Second}, c.bad, observeOnly)
				require.ErrorIs(t, err, watchdog.ErrInvalid)
				require.ErrorContains(t, err, c.want)
				require.Empty(t, got)
			}
		})
	}
	t.Run("under limits that cannot be is an error", func(t *testing.T) {
		_, err := replay.Run(watchdog.Budget{Idle: -1}, signals{attach}, false)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
	t.Run("with more decisions than anybody reads is an error, not a wait", func(t *testing.T) {
		day := signals{attach, {Kind: watchdog.SignalEnd, At: 24 * time.Hour}}
		endless := watchdog.Budget{Idle: time.Nanosecond, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveRetry, 200_000)}}
		_, err := replay.Run(endless, day, true)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "before signal 1 (end at 24h0m0s)")
		endless.Idle = time.Second
		_, err = replay.Run(endless, day, true)
		require.NoError(t, err, "one each second, all day, can be read")
	})
}

// FuzzTrace checks that a file of signals, one a line, is decided or refused, whatever is in it and by what limits.
func FuzzTrace(f *testing.F) {
	f.Add([]byte(`{"kind":"attach","version":2,"at":0,"busy":true}
{"kind":"spent","at":0,"usage":{"limit":"requests","used":3,"allowed":9},"rung":1,"more":2}
{"kind":"spent","at":0,"usage":{"limit":"loop","used":3,"allowed":0},"rung":1}
{"kind":"held","at":0,"key":"a","length":60000000000}
{"kind":"attached","at":5}
{"kind":"admit","at":6,"serial":1,"amount":{"requests":4,"cost":{"micros":7,"currency":"EUR"}}}
{"kind":"settle","at":7,"serial":1,"amount":{"requests":9,"result":"error"}}
{"kind":"admit","at":7,"serial":2,"amount":{"requests":9},"not_made":true}
{"kind":"loop","at":8,"rung":1,"usage":{"limit":"loop","used":4,"allowed":0,"pattern":"p"}}
{"kind":"incomplete","at":9,"from":7}
{"kind":"not_busy","at":60000000001,"from":5,"rung":1}
{"kind":"unpause","at":60000000002,"key":"p","from":9,"not_made":true,"usage":{"limit":"hold","used":0,"allowed":60000000000}}
{"kind":"extend","at":60000000002,"not_made":true,"usage":{"limit":"requests","used":9,"allowed":11},"more":2}
{"kind":"attach","at":60000000003,"budget":{"WallClock":5}}
{"kind":"end","at":9223372036854775806}`), int64(time.Hour), int64(time.Minute), true)
	f.Add([]byte(`{"kind":"attach","version":2,"at":9223372036854775807}`), int64(1), int64(math.MaxInt64), true)
	f.Add([]byte(`{"kind":"attach","length":9223372036854775807}
{"kind":"hold","at":0,"key":"a","length":1}
{"kind":"hold","at":0,"key":"a","length":1}
{"kind":"extend","at":1,"length":9223372036854775807}
{"kind":"end","at":9223372036854775806}`), int64(time.Hour), int64(time.Minute), false)
	budget := watchdog.Budget{
		NoProgress: 2 * time.Minute, Safety: time.Hour, Reserve: time.Minute,
		FromFirstSign: true, FirstSign: 3 * time.Minute,
		Spend: watchdog.Spend{
			Requests: 9, Tokens: 100, Cost: watchdog.Money{Micros: 50, Currency: "EUR"}, Errors: 1, CallInput: 5,
			Reserve: watchdog.Totals{Requests: 2},
		},
		Ladders: watchdog.Ladders{
			Idle: many(watchdog.DirectiveWait, 1), NoProgress: many(watchdog.DirectiveRetry, 2),
			Requests: many(watchdog.DirectiveRetry, 1), Hold: many(watchdog.DirectiveUnstuck, 1),
		},
	}
	f.Fuzz(func(t *testing.T, text []byte, wall, idle int64, observeOnly bool) {
		budget.WallClock, budget.Idle = time.Duration(wall), time.Duration(idle)
		var trace []watchdog.Signal
		for line := range bytes.Lines(text) {
			var s watchdog.Signal
			if json.Unmarshal(line, &s) != nil {
				t.Skip()
			}
			trace = append(trace, s)
		}
		got, err := replay.Run(budget, trace, observeOnly)
		if err != nil {
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.Empty(t, got)
		}
		require.True(t, slices.IsSortedFunc(got, func(a, b replay.Decision) int { return cmp.Compare(a.At, b.At) }))
	})
}
