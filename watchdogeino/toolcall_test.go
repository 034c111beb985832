package watchdogeino_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// kinds are the tool "hammer" in each form that the SDK has. Those that stream send what they did before they hang.
func kinds(hang func(context.Context) error) map[string]tool.BaseTool {
	at := invokable{"hammer", func(ctx context.Context, _ string) (string, error) { return "", hang(ctx) }}
	in := streamable{"hammer", func(ctx context.Context, send func(string) bool) error {
		send("one nail")
		return hang(ctx)
	}}
	return map[string]tool.BaseTool{
		"invokable": at, "streamable": in, "enhanced": enhanced{at}, "enhanced streamable": enhancedStreamable{in},
	}
}

// TestHang checks that the model reads why its tool was ended, and that the agent goes on.
func TestHang(t *testing.T) {
	for _, hang := range []struct {
		name string
		work func(context.Context) error
		took time.Duration
		text string
	}{
		{"heeds its context", until, 10 * time.Minute, "Parts of it may have been done."},
		{"ignores its context", deaf, 10*time.Minute + 5*time.Second, "may still be running."},
	} {
		for kind, hammer := range kinds(hang.work) {
			eachWay(t, kind+" "+hang.name, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute})
				m := scripted(calls("hammer"), says("I leave that"))
				began := time.Now()
				last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, hammer), streaming)
				require.NoError(t, err)
				assert.Equal(t, "I leave that", last)
				within(t, hang.took, time.Since(began))
				read := m.last(1)
				assert.Contains(t, read, `The call of the tool "hammer" was ended: it did not finish within its limit of 10m0s. `)
				assert.Contains(t, read, hang.text)
				assert.Equal(t, strings.Contains(kind, "streamable"), strings.HasPrefix(read, "one nail\n\nThe call"))
				assert.Nil(t, wd.Stop())
				time.Sleep(time.Hour) // what was abandoned returns
				assert.ErrorIs(t, context.Cause(wd.Context()), watchdog.IdleExceeded, "the hold is closed")
			})
		}
	}
}

// TestPanic checks that a panic of a tool is an error of the agent, as without a guard, in the turns of each kind.
func TestPanic(t *testing.T) {
	for kind, hammer := range kinds(func(context.Context) error { panic("the handle broke") }) {
		if strings.Contains(kind, "streamable") {
			continue // a tool that panics on a goroutine of its own ends the process, guarded or not
		}
		for _, tools := range [][]string{{"hammer"}, {"hammer", "hammer"}} {
			eachWay(t, kind, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{Errors: 5}})
				agent := newAgent(t, watchdogeino.New(limits), scripted(calls(tools...), says("done")), hammer)
				_, err := ask(wd.Context(), agent, streaming)
				require.ErrorContains(t, err, "the handle broke")
				assert.Nil(t, wd.Stop())
				time.Sleep(time.Minute + 1)
				assert.NotNil(t, wd.Stop(), "the hold is closed")
			})
		}
	}
}

// newNode is a node of tools that are guarded without an agent.
func newNode(t *testing.T, guard *watchdogeino.Middleware, tools ...tool.BaseTool) *compose.ToolsNode {
	t.Helper()
	node, err := compose.NewToolNode(t.Context(), &compose.ToolsNodeConfig{
		Tools: tools, ToolCallMiddlewares: []compose.ToolMiddleware{guard.ToolMiddleware()},
	})
	require.NoError(t, err)
	return node
}

// use has a node make calls and returns their answers.
func use(ctx context.Context, node *compose.ToolsNode, asked *schema.Message, streaming bool) ([]*schema.Message, error) {
	if !streaming {
		return node.Invoke(ctx, asked)
	}
	stream, err := node.Stream(ctx, asked)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var all [][]*schema.Message
	for {
		piece, err := stream.Recv()
		if err != nil {
			break
		}
		all = append(all, piece)
	}
	return schema.ConcatMessageArray(all)
}

// TestToolsNode checks that tools are guarded without an agent.
func TestToolsNode(t *testing.T) {
	for kind, hammer := range kinds(until) {
		eachWay(t, kind, func(t *testing.T, streaming bool) {
			wd := newRun(t, watchdog.Budget{Idle: time.Minute})
			guard := watchdogeino.New(limits)
			m, err := guard.Model(scripted(calls("hammer"))).WithTools(nil)
			require.NoError(t, err)
			asked, err := m.Generate(wd.Context(), nil)
			require.NoError(t, err)
			began := time.Now()
			answers, err := use(wd.Context(), newNode(t, guard, hammer), asked, streaming)
			require.NoError(t, err)
			within(t, 10*time.Minute, time.Since(began))
			require.Len(t, answers, 1)
			assert.Contains(t, textOf(answers[0]), `"hammer" was ended`)
			assert.Equal(t, strings.Contains(kind, "streamable"), strings.HasPrefix(textOf(answers[0]), "one nail\n\n"))
			assert.Nil(t, wd.Stop())
		})
	}
}

// TestToolsNodeFails checks that the calls beside one that fails leave nothing, though nobody reads or closes them.
func TestToolsNodeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		ctx, cancel := context.WithCancel(wd.Context())
		fails := invokable{"fails", func(context.Context, string) (string, error) { return "", assert.AnError }}
		var asked *schema.Message
		require.NoError(t, calls("hammer", "fails")(ctx, func(m *schema.Message) { asked = m }))
		_, err := newNode(t, watchdogeino.New(limits), kinds(until)["streamable"], fails).Stream(ctx, asked)
		require.ErrorIs(t, err, assert.AnError)
		cancel()
		synctest.Wait() // the bubble fails if a goroutine is left
	})
}

// TestGraphLoop checks that a model without an agent is told as well that it gets nowhere.
func TestGraphLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{})
		guard, inner := watchdogeino.New(limits), scripted(calls("look"))
		m, node := guard.Model(inner), newNode(t, guard, look)
		var err error
		for range 20 {
			asked, failed := m.Generate(wd.Context(), nil)
			if err = failed; err != nil {
				break
			}
			_, err = node.Invoke(wd.Context(), asked)
			require.NoError(t, err)
		}
		require.ErrorIs(t, err, watchdog.LoopDetected)
		assert.Equal(t, 5, inner.calls())
		assert.Contains(t, inner.last(3), "You repeat yourself")
	})
}

// stream calls the tool "hammer", as eino does.
func stream(
	ctx context.Context, t *testing.T, cfg watchdogeino.Config, run func(context.Context, func(string) bool) error,
) *schema.StreamReader[string] {
	t.Helper()
	hammer := streamable{"hammer", run}
	call, err := watchdogeino.New(cfg).WrapStreamableToolCall(ctx, hammer.StreamableRun, &adk.ToolContext{Name: "hammer"})
	require.NoError(t, err)
	in, err := call(ctx, `{}`)
	require.NoError(t, err)
	return in
}

// inBubble runs a subtest with a run of an idle of a minute.
func inBubble(t *testing.T, name string, test func(t *testing.T, wd *watchdog.Watchdog)) {
	t.Helper()
	bubble(t, name, func(t *testing.T) { test(t, newRun(t, watchdog.Budget{Idle: time.Minute})) })
}

func TestStream(t *testing.T) {
	silent := limits
	silent.Tools.Idle = time.Minute
	inBubble(t, "each piece is a sign of life", func(t *testing.T, wd *watchdog.Watchdog) {
		in := stream(wd.Context(), t, silent, func(_ context.Context, send func(string) bool) error {
			for range 8 {
				time.Sleep(time.Minute)
				send("nail")
			}
			return nil
		})
		all, err := pieces(in)
		require.NoError(t, err)
		assert.Len(t, all, 8)
	})
	inBubble(t, "the call lasts until the stream ends", func(t *testing.T, wd *watchdog.Watchdog) {
		began := time.Now()
		in := stream(wd.Context(), t, silent, func(ctx context.Context, send func(string) bool) error {
			send("nail")
			return until(ctx)
		})
		within(t, 0, time.Since(began))
		all, err := pieces(in)
		require.NoError(t, err)
		require.Len(t, all, 2)
		assert.Contains(t, all[1], "it gave no sign of life for its limit of 1m0s")
		within(t, time.Minute, time.Since(began))
		assert.Nil(t, wd.Stop())
	})
	inBubble(t, "a tool that ignores its context is told with its next piece", func(t *testing.T, wd *watchdog.Watchdog) {
		var sent atomic.Int64
		in := stream(wd.Context(), t, limits, func(_ context.Context, send func(string) bool) error {
			for closed := false; !closed; sent.Add(1) {
				time.Sleep(time.Minute - 2*time.Second)
				closed = send("nail")
			}
			return nil
		})
		all, err := pieces(in)
		require.NoError(t, err)
		require.Len(t, all, 11)
		assert.Contains(t, all[10], "within its limit of 10m0s")
		time.Sleep(time.Hour)
		assert.LessOrEqual(t, sent.Load(), int64(13))
	})
	inBubble(t, "a slow reader is not a tool that hangs", func(t *testing.T, wd *watchdog.Watchdog) {
		in := stream(wd.Context(), t, silent, func(_ context.Context, send func(string) bool) error {
			for range 100 {
				send("nail")
			}
			return nil
		})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		wd.Activity()
		time.Sleep(59 * time.Second)
		all, err := pieces(in)
		require.NoError(t, err)
		assert.Len(t, all, 100)
		_, err = in.Recv()
		assert.Equal(t, io.EOF, err, "again")
		in.Close()
	})
	inBubble(t, "an error passes through, with what came before", func(t *testing.T, wd *watchdog.Watchdog) {
		boom := errors.New("boom")
		in := stream(wd.Context(), t, silent, func(_ context.Context, send func(string) bool) error {
			send("nail")
			return boom
		})
		all, err := pieces(in)
		assert.Equal(t, boom, err)
		assert.Equal(t, []string{"nail"}, all)
		_, err = in.Recv()
		assert.Equal(t, io.EOF, err)
	})
	inBubble(t, "a reader that closes early ends the tool at once", func(t *testing.T, wd *watchdog.Watchdog) {
		ended := make(chan error, 1)
		in := stream(wd.Context(), t, silent, func(ctx context.Context, send func(string) bool) error {
			send("nail")
			ended <- until(ctx)
			return nil
		})
		_, err := in.Recv()
		require.NoError(t, err)
		in.Close()
		synctest.Wait()
		select {
		case why := <-ended:
			assert.ErrorContains(t, why, "the stream of the answer was closed")
		default:
			t.Error("the tool was not told")
		}
		assert.Nil(t, wd.Stop())
		time.Sleep(time.Minute + 1)
		assert.NotNil(t, wd.Stop(), "the hold is closed")
	})
	inBubble(t, "a reader that never comes holds nothing once the run is over", func(t *testing.T, wd *watchdog.Watchdog) {
		ctx, cancel := context.WithCancel(wd.Context())
		in := stream(ctx, t, silent, func(_ context.Context, send func(string) bool) error {
			send("nail")
			return nil
		})
		synctest.Wait()
		cancel()
		synctest.Wait() // the bubble fails if a goroutine is left
		_, err := in.Recv()
		require.ErrorIs(t, err, context.Canceled, "what was not read is not lost in silence")
		_, err = in.Recv()
		assert.Equal(t, io.EOF, err)
	})
}

// TestStreamPanics checks that a panic in a stream is one of its reader, and not the end of the process.
func TestStreamPanics(t *testing.T) {
	broken := func(any) (string, error) { panic("the handle broke") }
	for _, c := range []struct {
		name string
		open func(context.Context, string, ...tool.Option) (*schema.StreamReader[string], error)
	}{
		{"before it begins", func(context.Context, string, ...tool.Option) (*schema.StreamReader[string], error) {
			panic("the handle broke")
		}},
		{"within", func(context.Context, string, ...tool.Option) (*schema.StreamReader[string], error) {
			return schema.StreamReaderWithConvert(schema.StreamReaderFromArray([]any{1}), broken), nil
		}},
	} {
		inBubble(t, c.name, func(t *testing.T, wd *watchdog.Watchdog) {
			call, err := watchdogeino.New(limits).WrapStreamableToolCall(wd.Context(), c.open, &adk.ToolContext{Name: "hammer"})
			require.NoError(t, err)
			assert.Panics(t, func() {
				in, err := call(wd.Context(), `{}`)
				require.NoError(t, err)
				_, _ = in.Recv()
			})
		})
	}
}

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
