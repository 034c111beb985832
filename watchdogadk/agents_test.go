package watchdogadk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/tool/agenttool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// TestParallelTools checks that the tools of one turn hang and answer each for itself.
func TestParallelTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd, m := newRun(t, watchdog.Budget{Idle: time.Second}), scripted(calls("quick", "hang", "deaf", "quick"))
		s := newGuarded(t, watchdogadk.New(limits), m,
			toolOf("quick", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				time.Sleep(time.Millisecond)
				return map[string]any{"result": "quick"}, ctx.State().Set("quick", true)
			}),
			toolOf("hang", until),
			toolOf("deaf", func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(time.Hour)
				return nil, errors.New("late")
			}))
		began := time.Now()
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		within(t, time.Minute+5*time.Second, time.Since(began))
		told := unescaped(m.asked(1))
		assert.Equal(t, 2, strings.Count(told, `{"result":"quick"}`), told)
		assert.Contains(t, told, `The call of the tool "hang" was ended`)
		assert.Contains(t, told, `The call of the tool "deaf" was ended`)
		assert.Equal(t, true, s.state("quick"))
		time.Sleep(time.Hour)
	})
}

// TestLoop checks that parallel calls are one turn: a model that repeats three of them is told in the third round, and
// ended two rounds later.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd := newRun(t, watchdog.Budget{})
		var turns []turn
		for range 20 {
			turns = append(turns, calls("look", "look", "look"))
		}
		m := scripted(turns...)
		s := newGuarded(t, watchdogadk.New(limits), m,
			toolOf("look", func(agent.Context, map[string]any) (map[string]any, error) {
				return map[string]any{"found": "nothing"}, nil
			}))
		_, err := s.ask(wd.Context(), "go")
		require.ErrorIs(t, err, watchdog.LoopDetected)
		assert.NotContains(t, m.asked(2), "You repeat yourself")
		assert.Contains(t, m.asked(3), "You repeat yourself", "after the third round")
		assert.NotContains(t, m.asked(4), "You repeat yourself", "the words are not part of the session")
		assert.Equal(t, 5, m.count())
	})
}

// TestAgentTool checks that an agent that is a tool is in the run: what it spends counts, it ends with the run, and it
// may be silent, as a tool.
func TestAgentTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Second, Spend: watchdog.Spend{Tokens: 100_000, ToolCalls: 10}})
		g := watchdogadk.New(watchdogadk.Config{})
		inner := scripted(calls("slow"), answers(30*time.Second, used(whole(genai.NewPartFromText("found")), 100, 10)))
		helper := newAgent(t, llmagent.Config{
			Name: "helper", Model: g.Model(inner), Tools: g.Tools(
				toolOf("slow", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
					assert.NotEqual(t, wd.ID(), watchdog.FromContext(ctx).ID(), "a layer")
					time.Sleep(10 * time.Minute)
					return map[string]any{}, nil
				})),
		})
		outer := scripted(asks("helper", "request", "find"), answers(0, used(whole(genai.NewPartFromText("done")), 1000, 1)))
		plugin, err := g.Plugin()
		require.NoError(t, err)
		s := newStage(t, newAgent(t, llmagent.Config{
			Model: g.Model(outer), Tools: g.Tools(agenttool.New(helper, nil)),
		}), plugin)
		last, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, "done", last)
		assert.Contains(t, outer.asked(1), `{"result":"found"}`)
		assert.EqualValues(t, 2, usage(wd, watchdog.ToolCallsExceeded).Used, "helper and slow")
		assert.Greater(t, usage(wd, watchdog.TokensExceeded).Used, int64(1111), "two calls say what they used, two do not")
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
	})
}

// TestAgentToolHangs checks that an agent that is a tool ends at the limit of the tool, with all that it does.
func TestAgentToolHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd, g := newRun(t, watchdog.Budget{}), watchdogadk.New(limits)
		helper := newAgent(t, llmagent.Config{Name: "helper", Model: g.Model(scripted(stalls(0, partial("wait"))))})
		outer := scripted(asks("helper", "request", "find"))
		s := newGuarded(t, g, outer, agenttool.New(helper, nil))
		began := time.Now()
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		within(t, time.Minute, time.Since(began))
		assert.Contains(t, unescaped(outer.asked(1)), `The call of the tool "helper" was ended`)
	})
}

// TestTransfer checks that an agent to which another one transfers is in the run.
func TestTransfer(t *testing.T) {
	wd, g := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}}), watchdogadk.New(limits)
	helper := newAgent(t, llmagent.Config{
		Name: "helper", Model: g.Model(scripted(answers(0, used(whole(genai.NewPartFromText("helped")), 100, 10)))),
	})
	root := newAgent(t, llmagent.Config{
		Name: "root", SubAgents: []agent.Agent{helper},
		Model: g.Model(scripted(answers(0,
			used(whole(genai.NewPartFromFunctionCall("transfer_to_agent", map[string]any{"agent_name": "helper"})), 1000, 1)))),
	})
	plugin, err := g.Plugin()
	require.NoError(t, err)
	last, err := newStage(t, root, plugin).ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.Equal(t, "helped", last)
	assert.EqualValues(t, 1111, usage(wd, watchdog.TokensExceeded).Used)
	assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
}

// TestSingleTurn checks that an agent to which the SDK delegates a turn is in the run, and its tools are guarded.
func TestSingleTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd, g := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 10}}), watchdogadk.New(limits)
		inner := scripted(calls("hang"), says("helped"))
		helper := newAgent(t, llmagent.Config{
			Name: "helper", Mode: "single_turn", Model: g.Model(inner), Tools: g.Tools(toolOf("hang", until)),
		})
		outer := scripted(asks("helper", "request", "find"))
		s := newStage(t, newAgent(t, llmagent.Config{Model: g.Model(outer), SubAgents: []agent.Agent{helper}}))
		began := time.Now()
		last, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, "done", last)
		within(t, time.Minute, time.Since(began))
		assert.Contains(t, unescaped(inner.asked(1)), `The call of the tool "hang" was ended`)
		assert.Contains(t, outer.asked(1), "helped")
		assert.EqualValues(t, 1, usage(wd, watchdog.ToolCallsExceeded).Used, "the SDK's own tool is not wrapped")
	})
}

// TestParallelAgents checks that a cap holds for agents that work at the same time.
func TestParallelAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 10}})
		g := watchdogadk.New(limits)
		var team []agent.Agent
		var called [4]int
		for i := range called {
			name := fmt.Sprintf("worker_%d", i)
			var turns []turn
			for range 10 {
				turns = append(turns, asks("work", "n", len(turns)))
			}
			team = append(team, newAgent(t, llmagent.Config{
				Name: name, Model: g.Model(scripted(turns...)), Tools: g.Tools(
					toolOf("work", func(agent.Context, map[string]any) (map[string]any, error) {
						called[i]++
						time.Sleep(time.Second)
						return map[string]any{"worker": i, "n": called[i]}, nil
					})),
			}))
		}
		workers, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "team", SubAgents: team}})
		require.NoError(t, err)
		_, err = newStage(t, workers).ask(wd.Context(), "go")
		require.Error(t, err, "perhaps that of a worker who found its context ended")
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.ToolCallsExceeded)
		all := called[0] + called[1] + called[2] + called[3]
		assert.LessOrEqual(t, all, 10)
		assert.GreaterOrEqual(t, all, 10-3, "but for those that were about to begin when the run ended")
	})
}

// usage returns how far a limit is used.
func usage(wd *watchdog.Watchdog, code watchdog.StopReason) (of watchdog.Usage) {
	for _, u := range wd.Usage() {
		if u.Code() == code {
			of = u
		}
	}
	return of
}
