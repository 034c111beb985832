package watchdogadk_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
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

// usage returns how far a limit is used.
func usage(wd *watchdog.Watchdog, code watchdog.StopReason) (of watchdog.Usage) {
	for _, u := range wd.Usage() {
		if u.Code() == code {
			of = u
		}
	}
	return of
}
