package watchdogadk_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"

	"github.com/seed62658d38/watchdog"
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
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		for _, m := range models {
			require.NotContains(t, m.asked(8), "You repeat")
		}

		s, models = newTeam(t, watchdogadk.New(limits), reading(1, "read", 1, 2), reading(1, "read", 1, 1, 1, 1, 1, 1, 1, 1))
		_, err = s.ask(wd.Context(), "go again")
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
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
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
					p, err := g.Plugin()
					require.NoError(t, err)
					s = newStage(t, c.agent(t, g), p)
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
		_, err = s.ask(watched.Context(), "go")
		require.NoError(t, err)
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
		_, err := newGuarded(t, g, outer, agenttool.New(helper, nil)).ask(wd.Context(), "go")
		require.NoError(t, err)
		require.Equal(t, 5, inner.count())
		require.Contains(t, inner.asked(3), "You repeat yourself")
		require.Contains(t, unescaped(outer.asked(1)), "watchdog_loop_detected")
		require.NoError(t, wd.Context().Err())
	})
}
