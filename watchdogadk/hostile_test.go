package watchdogadk_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// TestGuardsTogether checks that agents with guards of their own work in one run at once, and share its caps.
func TestGuardsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			Spend:   watchdog.Spend{ToolCalls: 10},
			Ladders: watchdog.Ladders{ToolCalls: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
		})
		var team []agent.Agent
		var mu sync.Mutex
		made := 0
		for i := range 4 {
			g := watchdogadk.New(limits)
			team = append(team, newAgent(t, llmagent.Config{
				Name:  fmt.Sprint("worker_", i),
				Model: g.Model(scripted(calls("work"), calls("work"), calls("work"), calls("work"))),
				Tools: g.Tools(toolOf("work", func(agent.Context, map[string]any) (map[string]any, error) {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					made++
					return map[string]any{"n": made}, nil
				})),
			}))
		}
		workers, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "team", SubAgents: team}})
		require.NoError(t, err)
		s := newStage(t, workers)
		_, err = s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, 10, made)
		assert.Equal(t, 6, strings.Count(unescaped(s.history()), `The call of the tool "work" was not made`))
		assert.NotContains(t, s.history(), "already held")
	})
}

// TestRunsTogether checks that runs of one guard at once have nothing in common.
func TestRunsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := watchdogadk.New(limits)
		var both sync.WaitGroup
		for _, loops := range []bool{true, false} {
			both.Go(func() {
				wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 100}})
				m, n := scripted(slices.Repeat([]turn{calls("look")}, 20)...), 0
				s := newGuarded(t, g, m, toolOf("look", func(agent.Context, map[string]any) (map[string]any, error) {
					time.Sleep(time.Second)
					if n++; loops {
						return map[string]any{"n": 0}, nil
					}
					return map[string]any{"n": n}, nil
				}))
				_, err := s.ask(wd.Context(), "go")
				if loops {
					assert.ErrorIs(t, err, watchdog.LoopDetected)
					assert.EqualValues(t, 5, usage(wd, watchdog.ToolCallsExceeded).Used)
				} else {
					assert.NoError(t, err)
					assert.EqualValues(t, 20, usage(wd, watchdog.ToolCallsExceeded).Used)
				}
			})
		}
		both.Wait()
	})
}

// TestHundred checks a hundred calls at once, of which half hang.
func TestHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd := newRun(t, watchdog.Budget{Idle: time.Second, Spend: watchdog.Spend{ToolCalls: 100}})
		m := scripted(calls(slices.Repeat([]string{"quick", "deaf"}, 50)...))
		s := newGuarded(t, watchdogadk.New(limits), m, toolOf("quick", ok),
			toolOf("deaf", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				time.Sleep(time.Hour)
				return nil, ctx.State().Set("late", true)
			}))
		began := time.Now()
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		within(t, time.Minute+5*time.Second, time.Since(began))
		assert.Equal(t, 50, strings.Count(m.asked(1), "may still be running"))
		assert.EqualValues(t, 100, usage(wd, watchdog.ToolCallsExceeded).Used)
		time.Sleep(2 * time.Hour)
		assert.Nil(t, s.state("late"))
	})
}

// TestPluginAgain checks that a call of a wrapped model that is made again counts twice, and not more, with the plugin.
func TestPluginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			Idle: time.Minute, Spend: watchdog.Spend{Requests: 9, Tokens: 100_000},
			Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
		})
		g := watchdogadk.New(limits)
		m := scripted(stalls(0, used(partial("half"), 7, 1)), answers(0, used(whole(genai.NewPartFromText("whole")), 100, 20)))
		last, err := newPlugged(t, g, g.Model(m)).ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, "whole", last)
		assert.EqualValues(t, 2, usage(wd, watchdog.RequestsExceeded).Used)
		assert.EqualValues(t, 128, usage(wd, watchdog.TokensExceeded).Used)
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
	})
}

// TestEndedBefore checks that an agent in a run that has ended makes no call, also if its context was cut off from that
// of the run.
func TestEndedBefore(t *testing.T) {
	for name, end := range map[string]func(*watchdog.Watchdog){
		"closed":   func(wd *watchdog.Watchdog) { _ = wd.Close() },
		"complete": func(wd *watchdog.Watchdog) { _ = wd.Complete() },
		"stopped":  func(wd *watchdog.Watchdog) { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "operator_stop"}) },
	} {
		t.Run(name, func(t *testing.T) {
			quiet(t)
			wd := newRun(t, watchdog.Budget{Idle: time.Minute})
			end(wd)
			for _, ctx := range []context.Context{wd.Context(), context.WithoutCancel(wd.Context())} {
				g, m := watchdogadk.New(limits), scripted(calls("look"))
				_, err := newGuarded(t, g, m, toolOf("look", ok)).ask(ctx, "go")
				require.Error(t, err)
				assert.Zero(t, m.count())
				_, err = newPlugged(t, g, m, toolOf("look", ok)).ask(ctx, "go")
				require.Error(t, err)
				assert.Zero(t, m.count())
			}
		})
	}
}

// TestWrapUpOfTwoLimits checks that each limit asks once to wrap up.
func TestWrapUpOfTwoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			WallClock: time.Hour, Reserve: 20 * time.Minute,
			Spend: watchdog.Spend{Requests: 6, Reserve: watchdog.Totals{Requests: 4}},
		})
		m := scripted(slices.Repeat([]turn{calls("slow")}, 4)...)
		var n atomic.Int64 // one of the calls is left behind when the time of the run is nearly used up
		s := newGuarded(t, watchdogadk.New(watchdogadk.Config{}), m,
			toolOf("slow", func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(15 * time.Minute)
				return map[string]any{"n": n.Add(1)}, nil
			}))
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		asked := map[string]int{}
		for i := range m.count() {
			for _, limit := range []string{"watchdog_wall_clock_exceeded", "watchdog_requests_exceeded"} {
				asked[limit] += strings.Count(m.asked(i), "("+limit+"). Call no more tools")
			}
		}
		assert.Equal(t, map[string]int{"watchdog_wall_clock_exceeded": 1, "watchdog_requests_exceeded": 1}, asked)
	})
}

// TestHuge checks answers of 4 MiB.
func TestHuge(t *testing.T) {
	wd, huge := newRun(t, watchdog.Budget{Idle: time.Minute}), strings.Repeat("0123456789abcdef", 1<<18)
	m := scripted(calls("look", "tail"))
	s := newGuarded(t, watchdogadk.New(limits), m,
		toolOf("look", func(agent.Context, map[string]any) (map[string]any, error) {
			return map[string]any{"found": huge}, nil
		}),
		streamOf("tail", func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
			each(0, yield, slices.Repeat([]string{huge[:16<<10]}, 256)...)
		}))
	_, err := s.ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.Greater(t, len(m.asked(1)), 8<<20)
}

// TestMany checks that calls by the SDK's runner leave no memory; nor goroutines, as TestMain checks.
func TestMany(t *testing.T) {
	wd, g, n := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 1 << 40}}), watchdogadk.New(limits), 0
	p, err := g.Plugin()
	require.NoError(t, err)
	var mu sync.Mutex
	look := toolOf("look", func(agent.Context, map[string]any) (map[string]any, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return map[string]any{"n": n}, nil
	})
	agents := func(count int) int64 {
		for range count {
			m := scripted(calls(slices.Repeat([]string{"look"}, 20)...))
			a := newAgent(t, llmagent.Config{Model: g.Model(m), Tools: g.Tools(look)})
			ctx, done := context.WithCancel(wd.Context()) // the SDK keeps what it makes of a context until that ends
			_, err := newStage(t, a, p).ask(ctx, "go")
			require.NoError(t, err)
			done()
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := agents(20)
	assert.Less(t, agents(100)-before, int64(512<<10), "bytes after 2,000 calls")
}
