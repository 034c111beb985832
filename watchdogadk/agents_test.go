package watchdogadk_test

import (
	"context"
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
	"google.golang.org/adk/v2/session"
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

// TestResume checks that a run goes on after its process was killed in the middle of a tool: its window, what it spent,
// and its session; and that the model is asked again with all of that.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, run := &watchdog.Memory{}, watchdog.Run{ID: "job-1", StartedAt: time.Now()}
		cfg := watchdog.Config{Store: store, Budget: watchdog.Budget{
			WallClock: time.Hour, Reserve: 10 * time.Minute, Spend: watchdog.Spend{ToolCalls: 3},
			Ladders: watchdog.Ladders{ToolCalls: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
		}}
		hangs := true
		m := scripted(calls("work"), calls("work"), calls("work"), calls("work"))
		sessions := session.InMemoryService()
		newStageOfProcess := func() *stage {
			g := watchdogadk.New(limits)
			return newStageOver(t, sessions, newAgent(t, llmagent.Config{Model: g.Model(m), Tools: g.Tools(
				toolOf("work", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
					if !hangs {
						return map[string]any{"result": "worked"}, nil
					}
					return until(ctx, nil)
				}))}))
		}

		process, kill := context.WithCancelCause(t.Context())
		time.AfterFunc(30*time.Second, func() { kill(errors.New("killed")) })
		first, err := watchdog.New(process, run, cfg) // nobody closes it
		require.NoError(t, err)
		_, err = newStageOfProcess().ask(first.Context(), "go")
		require.Error(t, err)

		time.Sleep(10 * time.Minute)
		hangs = false
		wd, err := watchdog.New(t.Context(), run, cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, wd.Close()) }()
		assert.Equal(t, 50*time.Minute-10*time.Minute-30*time.Second, wd.Remaining(), "its window goes on")
		last, err := newStageOfProcess().ask(wd.Context(), "go on")
		require.NoError(t, err)
		assert.Equal(t, "done", last)
		assert.Contains(t, m.asked(1), "go on")
		assert.Contains(t, m.asked(2), "worked")
		assert.Contains(t, m.asked(m.count()-1), "was not made", "the call before the kill counts")
		assert.EqualValues(t, 3, usage(wd, watchdog.ToolCallsExceeded).Used)
	})
}
