package watchdogadk_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/adk/v2/tool/toolconfirmation"
	"google.golang.org/genai"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

func read(agent.Context, map[string]any) (map[string]any, error) {
	return map[string]any{"result": "the text"}, nil
}

// reading answers with a call for each of some files, and then a text, again and again.
func reading(rounds int, tool string, files ...any) (turns []turn) {
	for range rounds {
		for _, file := range files {
			turns = append(turns, asks(tool, "file", file))
		}
		turns = append(turns, says("done"))
	}
	return turns
}

// newTeam are agents that work at the same time, each with its turns.
func newTeam(t *testing.T, g *watchdogadk.Guard, workers ...[]turn) (*stage, []*script) {
	t.Helper()
	var team []agent.Agent
	var models []*script
	for i, turns := range workers {
		m := scripted(turns...)
		models = append(models, m)
		team = append(team, newAgent(t, llmagent.Config{
			Name: fmt.Sprintf("worker_%d", i), Model: g.Model(m), Tools: g.Tools(toolOf("read", read)),
		}))
	}
	all, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "team", SubAgents: team}})
	require.NoError(t, err)
	return newStage(t, all), models
}

// TestParallelAgentsReadTheSame checks that agents which read the same at the same time do not look like one that
// repeats itself, and that one which does is told alone, and is no end of the run.
func TestParallelAgentsReadTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd, files := newRun(t, watchdog.Budget{}), []any{1, 2, 3, 4, 5, 6, 7, 8}
		var well [6][]turn // the SDK writes into the answers
		for i := range well {
			well[i] = reading(1, "read", files...)
		}
		s, models := newTeam(t, watchdogadk.New(limits), well[:]...)
		s.run(wd.Context())
		for _, m := range models {
			require.NotContains(t, m.asked(8), "You repeat")
		}

		s, models = newTeam(t, watchdogadk.New(limits), reading(1, "read", 1, 2), reading(1, "read", 1, 1, 1, 1, 1, 1, 1, 1))
		_, err := s.ask(wd.Context(), "go again")
		require.ErrorIs(t, err, watchdog.LoopDetected)
		require.Contains(t, models[1].asked(3), `You repeat yourself`)
		require.Contains(t, unescaped(models[1].asked(3)), `"read" was called with the same input`)
		require.Equal(t, 5, models[1].count())
		require.NotContains(t, models[0].asked(2), "You repeat")
		require.NoError(t, wd.Context().Err())
		_, asked := wd.Poll()
		require.False(t, asked)
	})
}

// TestDelegated checks that what an agent does whom another one delegates a turn to again and again is judged for each
// turn.
func TestDelegated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd, g := newRun(t, watchdog.Budget{}), watchdogadk.New(limits)
		helper := newAgent(t, llmagent.Config{
			Name: "helper", Mode: "single_turn", Model: g.Model(scripted(reading(12, "read", "notes")...)),
			Tools: g.Tools(toolOf("read", read)),
		})
		var turns []turn
		for n := range 10 {
			turns = append(turns, asks("helper", "request", fmt.Sprintf("find %d", n)))
		}
		outer := scripted(turns...)
		s := newStage(t, newAgent(t, llmagent.Config{Model: g.Model(outer), SubAgents: []agent.Agent{helper}}))
		s.run(wd.Context())
		require.Equal(t, 11, outer.count())
		require.NotContains(t, outer.asked(10), "You repeat")
	})
}

// TestPerson checks that what a person says has the agent begin anew, and that what a program says does not: the same
// words again, and those of an agent to another one.
func TestPerson(t *testing.T) {
	const rounds = 12
	person := func(n int) string { return fmt.Sprintf("look once more, for the %d. time", n) }
	program := func(int) string { return "continue" }
	coder := func(t *testing.T, g *watchdogadk.Guard, m *script, tools ...tool.Tool) agent.Agent {
		return newAgent(t, llmagent.Config{Model: g.Model(m), Tools: tools})
	}
	helper := func(t *testing.T, g *watchdogadk.Guard) tool.Tool {
		return agenttool.New(newAgent(t, llmagent.Config{
			Name: "helper", Model: g.Model(scripted(reading(rounds, "read", "notes")...)), Tools: g.Tools(toolOf("read", read)),
		}), nil)
	}
	delegates := func() (turns []turn) {
		for n := range rounds {
			turns = append(turns, asks("helper", "request", fmt.Sprintf("find %d", n)))
		}
		return turns
	}
	for _, c := range []struct {
		name  string
		says  func(n int) string
		agent func(t *testing.T, g *watchdogadk.Guard) agent.Agent
		loop  bool
	}{
		{name: "a person asks for the same again", says: person, agent: func(t *testing.T, g *watchdogadk.Guard) agent.Agent {
			return coder(t, g, scripted(reading(rounds, "read", "notes")...), g.Tool(toolOf("read", read)))
		}},
		{name: "a program says the same again", says: program, loop: true, agent: func(
			t *testing.T, g *watchdogadk.Guard,
		) agent.Agent {
			return coder(t, g, scripted(reading(rounds, "read", "notes")...), g.Tool(toolOf("read", read)))
		}},
		{name: "an agent asks another one, which repeats itself", says: program, loop: true, agent: func(
			t *testing.T, g *watchdogadk.Guard,
		) agent.Agent {
			return coder(t, g, scripted(delegates()...), helper(t, g))
		}},
		{name: "an agent asks another one that is guarded as a tool", says: program, agent: func(
			t *testing.T, g *watchdogadk.Guard,
		) agent.Agent {
			return coder(t, g, scripted(delegates()...), g.Tool(helper(t, g)))
		}},
	} {
		for _, plugin := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, plugin %v", c.name, plugin), func(t *testing.T) {
				quiet(t)
				wd, g := newRun(t, watchdog.Budget{}), watchdogadk.New(limits)
				s := newStage(t, c.agent(t, g))
				if plugin {
					s = newStage(t, c.agent(t, g), pluginOf(t, g))
				}
				for n := range rounds {
					if _, err := s.ask(wd.Context(), c.says(n)); err != nil {
						break
					}
				}
				ended := context.Cause(wd.Context())
				if c.loop {
					require.ErrorIs(t, ended, watchdog.LoopDetected)
					return
				}
				require.NoError(t, ended)
			})
		}
	}
}

// TestAgentToolIsNoProgress checks that a request of one agent to another is not taken for a person's.
func TestAgentToolIsNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{}), watchdogadk.New(limits)
		var progress int
		watched, err := watchdog.New(wd.Context(), watchdog.Run{}, watchdog.Config{OnSignal: func(s watchdog.Signal) {
			if s.Kind == watchdog.SignalProgress {
				progress++
			}
		}})
		require.NoError(t, err)
		helper := newAgent(t, llmagent.Config{Name: "helper", Model: g.Model(scripted())})
		outer := scripted(asks("helper", "request", "a"), asks("helper", "request", "b"))
		s := newGuarded(t, g, outer, agenttool.New(helper, nil))
		s.run(watched.Context())
		require.NoError(t, watched.Close())
		synctest.Wait()
		require.Equal(t, 2, progress, "two calls of the tool")
	})
}

// TestAgentToolLoop checks that an agent in a tool which repeats itself is told, and ends alone.
func TestAgentToolLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd, g := newRun(t, watchdog.Budget{}), watchdogadk.New(limits)
		inner := scripted(reading(1, "read", 1, 1, 1, 1, 1, 1, 1, 1)...)
		helper := newAgent(t, llmagent.Config{
			Name: "helper", Model: g.Model(inner), Tools: g.Tools(toolOf("read", read)),
		})
		outer := scripted(asks("helper", "request", "find"))
		newGuarded(t, g, outer, agenttool.New(helper, nil)).run(wd.Context())
		require.Equal(t, 5, inner.count())
		require.Contains(t, inner.asked(3), "You repeat yourself")
		require.Contains(t, unescaped(outer.asked(1)), "watchdog_loop_detected")
		require.NoError(t, wd.Context().Err())
	})
}

// act does everything that a tool can do to its context, under names of its own.
func act(ctx agent.Context, name string) error {
	if err := ctx.State().Set("set-"+name, name); err != nil {
		return err
	}
	ctx.Actions().StateDelta["delta-"+name] = name
	_, err := ctx.Artifacts().Save(ctx, "file-"+name, genai.NewPartFromText("content"))
	return err
}

// TestActions checks that what a tool does to its context reaches the session when it has returned in time, and that
// the tool sees it before.
func TestActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, m := newRun(t, watchdog.Budget{}), scripted(calls("write"), calls("read"))
		var found []string
		s := newGuarded(t, watchdogadk.New(limits), m,
			toolOf("write", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				if err := act(ctx, "a"); err != nil {
					return nil, err
				}
				for _, key := range []string{"set-a", "delta-a"} {
					value, err := ctx.State().Get(key)
					found = append(found, fmt.Sprint(value, " ", err))
				}
				for key, value := range ctx.State().All() {
					found = append(found, fmt.Sprint(key, "=", value))
				}
				return nil, assert.AnError // an error in time is an answer, too
			}),
			toolOf("read", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				value, err := ctx.State().Get("set-a")
				return map[string]any{"read": value}, err
			}))
		s.run(wd.Context())
		assert.Equal(t, []string{"a <nil>", "a <nil>", "set-a=a"}, found)
		assert.Contains(t, m.asked(2), `{"read":"a"}`)
		assert.Equal(t, "a", s.state("set-a"))
		assert.Equal(t, "a", s.state("delta-a"))
		assert.Contains(t, s.history(), `"artifactDelta":{"file-a":1}`)
	})
}

// TestActionsLate checks that what a tool does after it was given up reaches nobody, and does not race with the runner.
func TestActionsLate(t *testing.T) {
	for _, stream := range []bool{false, true} {
		bubble(t, fmt.Sprintf("stream is %v", stream), func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{})
			turns := []turn{calls("hang")}
			for range 30 {
				turns = append(turns, answers(time.Second, whole(genai.NewPartFromFunctionCall("look", map[string]any{}))))
			}
			m, late := scripted(turns...), make(chan error, 1)
			work := func(ctx agent.Context, args map[string]any) error {
				derived, cancel := ctx.WithAgentCancel()
				defer cancel()
				for i := range 120 { // a minute until it is given up, and one more
					time.Sleep(time.Second)
					args["late"] = i
					ctx.Actions().TransferToAgent, ctx.Actions().Escalate = "nobody", true
					if err := act(ctx, "late"); err != nil {
						return err
					}
					if err := act(derived, "late-derived"); err != nil {
						return err
					}
					_ = ctx.RequestConfirmation("late", nil)
				}
				return nil
			}
			look := toolOf("look", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				value, _ := ctx.State().Get("set-late") // the runner's own copy of the session
				return map[string]any{"at": time.Now().String(), "value": value}, ctx.State().Set("seen", "yes")
			})
			cfg := limits
			cfg.Class = func(string) loop.Class { return loop.Wait }
			s := newGuarded(t, watchdogadk.New(cfg), m, hanging(stream, func(ctx agent.Context, args map[string]any) {
				late <- work(ctx, args)
			}), look)
			s.run(wd.Context())
			assert.Contains(t, m.asked(1), "may still be running")
			require.NoError(t, <-late)
			synctest.Wait()
			assert.Equal(t, "yes", s.state("seen"))
			for _, key := range []string{"set-late", "delta-late", "set-late-derived", "delta-late-derived"} {
				assert.Nil(t, s.state(key), key)
			}
			assert.NotContains(t, s.history(), "late")
			assert.NotContains(t, s.history(), "nobody")
		})
	}
}

// TestActionsEnded checks that nothing is kept of what a tool did that was ended, though it heeded its context: the
// model is told that it was ended.
func TestActionsEnded(t *testing.T) {
	for _, stream := range []bool{false, true} {
		bubble(t, fmt.Sprintf("stream is %v", stream), func(t *testing.T) {
			quiet(t)
			wd, m := newRun(t, watchdog.Budget{}), scripted(calls("hang"))
			s := newGuarded(t, watchdogadk.New(limits), m, hanging(stream, func(ctx agent.Context, _ map[string]any) {
				assert.NoError(t, act(ctx, "before"))
				<-ctx.Done()
				assert.NoError(t, act(ctx, "after"))
			}))
			s.run(wd.Context())
			assert.Contains(t, m.asked(1), "was ended")
			for _, when := range []string{"before", "after"} {
				assert.Nil(t, s.state("set-"+when))
				assert.NotContains(t, s.history(), `"delta-`+when)
				assert.NotContains(t, s.history(), `"file-`+when)
			}
		})
	}
}

// TestActionsCut checks that a tool which goes on after its run has ended does not race with the runner.
func TestActionsCut(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			quiet(t)
			wd, late := newRun(t, watchdog.Budget{WallClock: time.Minute}), make(chan error, 1)
			s := newGuarded(t, watchdogadk.New(limits), scripted(calls("hang")),
				hanging(stream, func(ctx agent.Context, _ map[string]any) {
					time.Sleep(time.Hour)
					late <- act(ctx, "late")
				}))
			_, err := s.ask(wd.Context(), "go")
			require.ErrorIs(t, err, watchdog.WallClockExceeded)
			require.NoError(t, <-late)
			assert.NotContains(t, s.history(), "late")
		})
	}
}

// hanging is a tool, or one that streams, that does the work whatever its context says.
func hanging(stream bool, work func(agent.Context, map[string]any)) tool.Tool {
	if !stream {
		return toolOf("hang", func(ctx agent.Context, args map[string]any) (map[string]any, error) {
			work(ctx, args)
			return map[string]any{"result": "late"}, nil
		})
	}
	return streamOf("hang", func(ctx agent.Context, args map[string]any, yield func(string, error) bool) {
		work(ctx, args)
		yield("late", nil)
	})
}

// TestActionsKept checks that each field of the actions is merged, also those of a later version of the SDK.
func TestActionsKept(t *testing.T) {
	want := session.EventActions{
		StateDelta: map[string]any{"s": "v"}, ArtifactDelta: map[string]int64{"a": 7}, SkipSummarization: true,
		RequestedToolConfirmations: map[string]toolconfirmation.ToolConfirmation{"c": {Hint: "h"}},
		TransferToAgent:            "other", Escalate: true,
	}
	all := reflect.ValueOf(want)
	for i := range all.NumField() {
		require.False(t, all.Field(i).IsZero(), "fill in %s", all.Type().Field(i).Name)
	}
	var got session.EventActions
	after := func(ctx agent.Context, _ tool.Tool, _, _ map[string]any, _ error) (map[string]any, error) {
		got = *ctx.Actions()
		return nil, nil
	}
	g := watchdogadk.New(limits)
	a := newAgent(t, llmagent.Config{
		Model: g.Model(scripted(calls("all"))), AfterToolCallbacks: []llmagent.AfterToolCallback{after},
		Tools: g.Tools(toolOf("all", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
			*ctx.Actions() = want
			return map[string]any{}, nil
		})),
	})
	_, _ = newStage(t, a).ask(newRun(t, watchdog.Budget{}).Context(), "go") // there is no such agent
	assert.Equal(t, want, got)
}

// TestConfirmation checks that a tool can ask for a person's approval, which is no error of the tool, and is called
// when it is there.
func TestConfirmation(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Errors: 1}})
	m, called := scripted(calls("deploy")), 0
	g := watchdogadk.New(limits)
	deploy := toolOf("deploy", func(agent.Context, map[string]any) (map[string]any, error) {
		called++
		return map[string]any{"result": "deployed"}, nil
	})
	sets := g.Toolsets(tool.WithConfirmation(set{deploy}, true, nil))
	s := newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Toolsets: sets}))
	s.run(wd.Context())
	assert.Zero(t, called)
	assert.Zero(t, wd.Usage()[0].Used, "no error")
	s.answer(wd.Context(), toolconfirmation.FunctionCallName, map[string]any{"confirmed": true})
	assert.Equal(t, 1, called)
	assert.Contains(t, m.asked(m.count()-1), "deployed")
}
