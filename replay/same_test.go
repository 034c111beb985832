package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/replay"
)

var lifeSeed = flag.Int64("life", -1, "the seed of the one life that TestReplayIsLife compares")

// TestReplayIsLife has sessions with layers live through random histories, and expects that the replay of what was
// traced of each run, under the budget that it had, decides what the host was told: 600, or 100,000 with
// WATCHDOG_LONG. A failure names the seed; -life replays it.
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
			if e.Type == watchdog.EventCheckpoint { // it says again what the others say
				continue
			}
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
