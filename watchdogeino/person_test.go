package watchdogeino_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

var look = invokable{"look", func(context.Context, string) (string, error) { return "nothing", nil }}

// files are tools that are read, each with a text of its own.
func files(n int) (names []string, all []tool.BaseTool) {
	for i := range n {
		name := fmt.Sprintf("file_%d", i)
		names = append(names, name)
		all = append(all, invokable{named(name), func(context.Context, string) (string, error) {
			time.Sleep(time.Second)
			return "the text of " + name, nil
		}})
	}
	return names, all
}

// reading are turns that read each of some files, and then say so.
func reading(files ...string) (turns []turn) {
	for _, file := range files {
		turns = append(turns, calls(file))
	}
	return append(turns, says("done"))
}

// TestParallelAgents checks that agents which read the same at the same time do not look like one that repeats itself,
// and that one which does is told alone, and is no end of the run.
func TestParallelAgents(t *testing.T) {
	eachWay(t, "", func(t *testing.T, streaming bool) {
		wd, guard := newRun(t, watchdog.Budget{}), watchdogeino.New(limits)
		names, tools := files(8)
		stuck := scripted(calls("look"))
		team := []adk.Agent{newNamed(t, guard, "stuck", stuck, look)}
		var models []*script
		for i := range 6 {
			m := scripted(reading(names...)...)
			models = append(models, m)
			team = append(team, newNamed(t, guard, fmt.Sprintf("worker_%d", i), m, tools...))
		}
		all, err := adk.NewParallelAgent(t.Context(), &adk.ParallelAgentConfig{Name: "team", SubAgents: team})
		require.NoError(t, err)
		_, err = ask(wd.Context(), all, streaming)
		require.ErrorIs(t, err, watchdog.LoopDetected)
		require.Equal(t, 5, stuck.calls())
		assert.Contains(t, stuck.last(3), "You repeat yourself")
		assert.Contains(t, stuck.last(3), `"look" was called with the same input`)
		for _, m := range models {
			require.Equal(t, 9, m.calls(), "it has read all")
			for call := range 9 {
				assert.NotContains(t, m.last(call), "You repeat")
			}
		}
		require.NoError(t, wd.Context().Err())
	})
}

// TestAgentToolLoop checks that an agent in a tool which repeats itself is told, and ends alone.
func TestAgentToolLoop(t *testing.T) {
	eachWay(t, "", func(t *testing.T, streaming bool) {
		wd, guard := newRun(t, watchdog.Budget{}), watchdogeino.New(limits)
		inner := scripted(calls("look"))
		helper := adk.NewAgentTool(t.Context(), newNamed(t, guard, "inner", inner, look))
		_, err := ask(wd.Context(), newNamed(t, guard, "outer", scripted(calls("inner"), says("done")), helper), streaming)
		require.ErrorIs(t, err, watchdog.LoopDetected, "an error of a tool is one of the agent")
		require.Equal(t, 5, inner.calls())
		assert.Contains(t, inner.last(3), "You repeat yourself")
		require.NoError(t, wd.Context().Err())
	})
}

// TestPerson checks that what a person says has the agent begin anew, and that what a program says does not: the same
// words again, a directive, what an agent is sent within its turn, or by another agent.
func TestPerson(t *testing.T) {
	const rounds = 12
	person := func(n int) string { return fmt.Sprintf("look once more, for the %d. time", n) }
	program := func(int) string { return "continue" }
	for _, c := range []struct {
		name string
		says func(n int) string
		loop bool
	}{
		{"a person asks for the same again", person, false},
		{"a program says the same again", program, true},
		{"a person said something long ago", func(n int) string { return person(n / 6) }, true},
	} {
		bubble(t, c.name, func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{})
			m := scripted(slices.Repeat(reading("look"), rounds)...)
			runner := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: newAgent(t, watchdogeino.New(limits), m, look)})
			var history []*schema.Message
			for n := 0; n < rounds && wd.Context().Err() == nil; n++ {
				history = append(history, schema.UserMessage(c.says(n)))
				last, _ := drain(runner.Run(wd.Context(), history))
				history = append(history, schema.AssistantMessage(last, nil))
			}
			if c.loop {
				stopped(t, wd, watchdog.LoopDetected)
				return
			}
			require.Nil(t, wd.Stop())
		})
	}
	bubble(t, "an agent sends others to another one", func(t *testing.T) {
		wd, guard, progress := newRun(t, watchdog.Budget{}), watchdogeino.New(limits), 0
		watched, err := watchdog.New(wd.Context(), watchdog.Run{}, watchdog.Config{OnSignal: func(s watchdog.Signal) {
			if s.Kind == watchdog.SignalProgress {
				progress++
			}
		}})
		require.NoError(t, err)
		inner := adk.NewAgentTool(t.Context(), newNamed(t, guard, "inner", scripted(says("one"), says("two"))))
		outer := scripted(calls("inner"), calls("inner"), says("done"))
		_, err = ask(watched.Context(), newNamed(t, guard, "outer", outer, inner), false)
		require.NoError(t, err)
		require.NoError(t, watched.Close())
		synctest.Wait()
		assert.Equal(t, 2, progress, "two calls of the tool")
	})
}

// A checkpoints store keeps what eino needs to go on.
type checkpoints struct{ kept sync.Map }

func (c *checkpoints) Get(_ context.Context, id string) ([]byte, bool, error) {
	kept, ok := c.kept.Load(id)
	if !ok {
		return nil, false, nil
	}
	return kept.([]byte), true, nil
}

func (c *checkpoints) Set(_ context.Context, id string, kept []byte) error {
	c.kept.Store(id, kept)
	return nil
}

// approved is what a tool does that asks a person before.
func approved(ctx context.Context) (string, error) {
	if asked, _, _ := tool.GetInterruptState[any](ctx); !asked {
		return "", tool.Interrupt(ctx, "may I?")
	}
	_, _, answer := tool.GetResumeContext[string](ctx)
	return "they said " + answer, nil
}

// An asking tool is a streamable one that asks before it streams.
type asking struct{ named }

func (asking) StreamableRun(ctx context.Context, _ string, _ ...tool.Option) (*schema.StreamReader[string], error) {
	answer, err := approved(ctx)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]string{answer}), nil
}

type askingEnhanced struct{ asking }

func (t askingEnhanced) StreamableRun(
	ctx context.Context, _ *schema.ToolArgument, _ ...tool.Option,
) (*schema.StreamReader[*schema.ToolResult], error) {
	answer, err := approved(ctx)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.ToolResult{result(answer)}), nil
}

// TestInterrupt checks that a tool that asks a person interrupts the agent as without a guard, and is one call.
func TestInterrupt(t *testing.T) {
	at := invokable{"ask", func(ctx context.Context, _ string) (string, error) { return approved(ctx) }}
	for kind, ask := range map[string]tool.BaseTool{
		"invokable": at, "streamable": asking{"ask"}, "enhanced": enhanced{at},
		"enhanced streamable": askingEnhanced{asking{"ask"}},
	} {
		eachWay(t, kind, func(t *testing.T, streaming bool) {
			interrupt(t, streaming, scripted(calls("look", "ask"), says("done")), ask)
		})
	}
	eachWay(t, "in a sub-agent", func(t *testing.T, streaming bool) {
		inner := newAgent(t, watchdogeino.New(limits), scripted(calls("ask"), says("they said yes")), at)
		interrupt(t, streaming, scripted(calls("look", "helper"), says("done")), adk.NewAgentTool(t.Context(), inner))
	})
}

func interrupt(t *testing.T, streaming bool, m *script, ask tool.BaseTool) {
	t.Helper()
	wd := newRun(t, watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{ToolCalls: 10, Errors: 1}})
	look := invokable{"look", func(context.Context, string) (string, error) { return "nothing", nil }}
	runner := adk.NewRunner(wd.Context(), adk.RunnerConfig{
		Agent: newAgent(t, watchdogeino.New(limits), m, ask, look), EnableStreaming: streaming, CheckPointStore: &checkpoints{},
	})
	events := runner.Query(wd.Context(), "go on", adk.WithCheckPointID("c-1"))
	var point string
	for event, more := events.Next(); more; event, more = events.Next() {
		require.NoError(t, event.Err)
		if event.Action != nil && event.Action.Interrupted != nil {
			for _, c := range event.Action.Interrupted.InterruptContexts {
				if c.IsRootCause {
					require.Equal(t, "may I?", c.Info)
					point = c.ID
				}
			}
		}
	}
	require.NotEmpty(t, point, "the agent was interrupted")
	synctest.Wait()
	require.EqualValues(t, 1, wd.Usage()[0].Used, "a call that waits is none yet")
	require.Zero(t, wd.Usage()[0].Admitted)

	person, err := wd.Hold(wd.Context(), "approval", watchdog.HoldLimit{Cap: watchdog.NoLimit})
	require.NoError(t, err)
	time.Sleep(time.Hour)
	person.Close()
	events, err = runner.ResumeWithParams(wd.Context(), "c-1", &adk.ResumeParams{Targets: map[string]any{point: "yes"}})
	require.NoError(t, err)
	last, err := drain(events)
	require.NoError(t, err)
	require.Equal(t, "done", last)
	require.Equal(t, "they said yes", m.last(1))
	require.Nil(t, wd.Stop())
	require.LessOrEqual(t, wd.Usage()[0].Used, int64(3))
}

// TestAgentCancel checks that the SDK's own cancel ends an agent whose tool hangs, and is no stop of the run. It is not
// in a bubble: the SDK reads the tool's stream through one of its own then, which only a finalizer closes, and that is
// outside of the bubble.
func TestAgentCancel(t *testing.T) {
	hung := make(chan struct{}, 1)
	for kind, hammer := range kinds(func(ctx context.Context) error { hung <- struct{}{}; return until(ctx) }) {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " streaming ", streaming), func(t *testing.T) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute})
				option, cancel := adk.WithCancel()
				m := scripted(calls("hammer"), says("done"))
				runner := adk.NewRunner(wd.Context(), adk.RunnerConfig{
					Agent: newAgent(t, watchdogeino.New(limits), m, hammer), EnableStreaming: streaming, CheckPointStore: &checkpoints{},
				})
				began := time.Now()
				events := runner.Query(wd.Context(), "go on", option, adk.WithCheckPointID("c-1"))
				<-hung
				time.Sleep(5 * time.Millisecond) // a cancel between two steps fails in the SDK, without a guard too
				cancel()
				_, err := drain(events)
				if !errors.Is(err, adk.ErrStreamCanceled) { // now and then, without a guard too
					require.ErrorAs(t, err, new(*adk.CancelError))
				}
				require.Less(t, time.Since(began), 30*time.Second)
				require.Nil(t, wd.Stop())
				require.Equal(t, 1, m.calls())
			})
		}
	}
}
