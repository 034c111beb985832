package watchdogadk_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// newPlugged is a stage with one agent, of which nothing is wrapped.
func newPlugged(t *testing.T, g *watchdogadk.Guard, m model.LLM, tools ...tool.Tool) *stage {
	t.Helper()
	p, err := g.Plugin()
	require.NoError(t, err)
	assert.Equal(t, watchdogadk.PluginName, p.Name())
	return newStage(t, newAgent(t, llmagent.Config{Model: m, Tools: tools}), p)
}

// TestPluginSignals checks that events and calls of tools are signs of life, and nothing else.
func TestPluginSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		m := scripted(
			answers(time.Minute, partial("a"), partial("b"), whole(genai.NewPartFromFunctionCall("minute", nil))),
			answers(time.Minute, whole(genai.NewPartFromText("c"))), stalls(0))
		s := newPlugged(t, watchdogadk.New(limits), m,
			toolOf("minute", func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(time.Minute)
				return map[string]any{}, nil
			}))
		last, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, "c", last)
		began := time.Now()
		_, err = s.ask(wd.Context(), "again")
		require.Error(t, err)
		require.NotNil(t, wd.Stop())
		assert.Equal(t, watchdog.IdleExceeded, wd.Stop().Code)
		within(t, time.Minute, time.Since(began))
	})
}

// TestPluginTools checks that the begin and the end of each call are signs of life, also where no event comes.
func TestPluginTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleep := func(name string, d time.Duration) *bareTool {
			return toolOf(name, func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(d)
				return map[string]any{}, nil
			})
		}
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		s := newPlugged(t, watchdogadk.New(limits), scripted(calls("short", "long")),
			sleep("short", 50*time.Second), sleep("long", 100*time.Second))
		for event, err := range s.runner.Run(wd.Context(), user, sessionID, genai.NewContentFromText("go", genai.RoleUser),
			agent.RunConfig{}) {
			require.NoError(t, err)
			if event.Content.Parts[0].FunctionCall != nil {
				time.Sleep(50 * time.Second) // a host that is slow: the tools begin after it
			}
		}
		assert.Nil(t, wd.Stop())
	})
}

// TestPluginEvents checks that each event of an agent of any kind is a sign of life.
func TestPluginEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{Idle: time.Minute}), watchdogadk.New(limits)
		steps := func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
			return func(yield func(*session.Event, error) bool) {
				for range 5 {
					time.Sleep(time.Minute)
					event := session.NewEvent(ctx, ctx.InvocationID())
					event.Content = genai.NewContentFromText("step", genai.RoleModel)
					if !yield(event, nil) {
						return
					}
				}
			}
		}
		a, err := agent.New(agent.Config{Name: "own", Run: steps})
		require.NoError(t, err)
		p, err := g.Plugin()
		require.NoError(t, err)
		last, err := newStage(t, a, p).ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, "step", last)
		assert.Nil(t, wd.Stop())
	})
}

// TestPluginSpend checks that a call of a model counts once, whether it is wrapped or not.
func TestPluginSpend(t *testing.T) {
	for name, wrap := range map[string]func(*watchdogadk.Guard, model.LLM) model.LLM{
		"bare":    func(_ *watchdogadk.Guard, m model.LLM) model.LLM { return m },
		"wrapped": func(g *watchdogadk.Guard, m model.LLM) model.LLM { return g.Model(m) },
	} {
		t.Run(name, func(t *testing.T) {
			wd, g := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000, Errors: 5}}), watchdogadk.New(limits)
			look := toolOf("look", func(agent.Context, map[string]any) (map[string]any, error) {
				assert.EqualValues(t, 120, usage(wd, watchdog.TokensExceeded).Used)
				assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
				return map[string]any{}, nil
			})
			m := scripted(
				answers(0, partial("a"), used(whole(genai.NewPartFromFunctionCall("look", nil)), 100, 20)),
				answers(0, used(whole(genai.NewPartFromText("b")), 3, 4)), fails(errors.New("boom")))
			s := newPlugged(t, g, wrap(g, m), look)
			_, err := s.ask(wd.Context(), "go")
			require.NoError(t, err)
			assert.EqualValues(t, 127, usage(wd, watchdog.TokensExceeded).Used)
			_, err = s.ask(wd.Context(), "again")
			require.ErrorContains(t, err, "boom")
			assert.EqualValues(t, 127, usage(wd, watchdog.TokensExceeded).Used)
			assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
			assert.EqualValues(t, 1, usage(wd, watchdog.ErrorsExceeded).Used)
		})
	}
}

// TestPluginParallel checks that the plugin tells the calls of agents apart that work at the same time.
func TestPluginParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}}), watchdogadk.New(limits)
		var team []agent.Agent
		for i := range 5 {
			m := scripted(answers(time.Duration(i+1)*time.Second, partial("a"), used(whole(genai.NewPartFromText("b")), 100, 10)))
			team = append(team, newAgent(t, llmagent.Config{Name: fmt.Sprintf("worker_%d", i), Model: m}))
		}
		workers, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "team", SubAgents: team}})
		require.NoError(t, err)
		p, err := g.Plugin()
		require.NoError(t, err)
		_, err = newStage(t, workers, p).ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.EqualValues(t, 5*110, usage(wd, watchdog.TokensExceeded).Used)
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
	})
}

// TestPluginWords checks that what the run asks for reaches the next request of the model once, and not the session.
func TestPluginWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{WallClock: time.Hour, Reserve: 10 * time.Minute})
		m := scripted(calls("slow"), calls("look"))
		s := newPlugged(t, watchdogadk.New(limits), m,
			toolOf("slow", func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(51 * time.Minute)
				return map[string]any{}, nil
			}), toolOf("look", ok))
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.NotContains(t, m.asked(0), "Call no more tools")
		assert.Contains(t, m.asked(1), "Call no more tools")
		assert.NotContains(t, m.asked(2), "Call no more tools")
		assert.NotContains(t, s.history(), "Call no more tools")
	})
}

// TestPluginRefused checks that a call that does not fit is not made.
func TestPluginRefused(t *testing.T) {
	quiet(t)
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Requests: 1}})
	m := scripted(calls("look"), calls("look"))
	_, err := newPlugged(t, watchdogadk.New(limits), m, toolOf("look", ok)).ask(wd.Context(), "go")
	var refused *watchdog.Refused
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, 1, m.count())
	<-wd.Context().Done()
}

// TestPluginCut checks that a call of which the SDK tells no end counts as admitted: one that is cut off, and one that
// another plugin answers.
func TestPluginCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}}), watchdogadk.New(limits)
		s := newPlugged(t, g, scripted(answers(time.Second, partial("a"), partial("b"), whole())))
		for range s.runner.Run(wd.Context(), user, sessionID, genai.NewContentFromText("go", genai.RoleUser),
			agent.RunConfig{StreamingMode: agent.StreamingModeSSE}) {
			break
		}
		time.Sleep(time.Minute)
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
		cut := usage(wd, watchdog.TokensExceeded).Used
		assert.Greater(t, cut, int64(1024))

		mine, err := g.Plugin()
		require.NoError(t, err)
		cached := []*genai.Part{genai.NewPartFromFunctionCall("look", nil), genai.NewPartFromText("cached")}
		cache, err := plugin.New(plugin.Config{
			Name: "cache",
			BeforeModelCallback: func(agent.Context, *model.LLMRequest) (*model.LLMResponse, error) {
				next := cached[0]
				cached = cached[1:]
				return whole(next), nil
			},
		})
		require.NoError(t, err)
		a := newAgent(t, llmagent.Config{Model: scripted(), Tools: []tool.Tool{toolOf("look", ok)}})
		last, err := newStage(t, a, mine, cache).ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, "cached", last)
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
		assert.Greater(t, usage(wd, watchdog.TokensExceeded).Used, cut)
	})
}

// TestPluginWithoutRun checks that a plugin does nothing to an agent in no run.
func TestPluginWithoutRun(t *testing.T) {
	last, err := newPlugged(t, watchdogadk.New(limits), scripted(calls("look")), toolOf("look", ok)).ask(t.Context(), "go")
	require.NoError(t, err)
	assert.Equal(t, "done", last)
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
