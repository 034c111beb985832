package watchdogeino_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A turn is one answer of a model: it sends pieces.
type turn func(ctx context.Context, send func(*schema.Message)) error

// A script is a model that answers with one turn after the other, and with the last ever after.
type script struct {
	turns []turn

	mu   sync.Mutex
	seen []string // what each call was sent
}

func scripted(turns ...turn) *script { return &script{turns: turns} }

func (s *script) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return s, nil }

func (s *script) next(in []*schema.Message) turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all strings.Builder
	for _, m := range in {
		fmt.Fprintf(&all, "%s: %s\n", m.Role, textOf(m))
	}
	s.seen = append(s.seen, all.String())
	return s.turns[min(len(s.seen), len(s.turns))-1]
}

// asked is what the call of that number was sent, counted from 0.
func (s *script) asked(call int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call >= len(s.seen) {
		return "there was no such call"
	}
	return s.seen[call]
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

func textOf(m *schema.Message) string {
	text := m.Content
	for _, part := range m.UserInputMultiContent {
		text += part.Text
	}
	return text
}

func (s *script) Generate(ctx context.Context, in []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	var pieces []*schema.Message
	if err := s.next(in)(ctx, func(m *schema.Message) { pieces = append(pieces, m) }); err != nil {
		return nil, err
	}
	return schema.ConcatMessages(pieces)
}

func (s *script) Stream(
	ctx context.Context, in []*schema.Message, _ ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	answer := s.next(in)
	return piped(func(send func(*schema.Message) bool) error {
		return answer(ctx, func(m *schema.Message) { send(m) })
	}), nil
}

// piped is a stream that work fills, as most tools and models make one.
func piped[T any](work func(send func(T) bool) error) *schema.StreamReader[T] {
	reader, writer := schema.Pipe[T](1)
	go func() {
		defer writer.Close()
		if err := work(func(piece T) bool { return writer.Send(piece, nil) }); err != nil {
			writer.Send(*new(T), err)
		}
	}()
	return reader
}

func speaks(text string) turn {
	return func(_ context.Context, send func(*schema.Message)) error {
		send(schema.AssistantMessage(text, nil))
		return nil
	}
}

// calls asks for a call of each tool.
func calls(tools ...string) turn {
	var asked []schema.ToolCall
	for i, name := range tools {
		asked = append(asked, schema.ToolCall{
			Index: &i, ID: fmt.Sprintf("call-%d", i), Type: "function",
			Function: schema.FunctionCall{Name: name, Arguments: `{"request":"x"}`},
		})
	}
	return func(_ context.Context, send func(*schema.Message)) error {
		send(schema.AssistantMessage("", asked))
		return nil
	}
}

// stalls answers with the pieces, with a pause before each, and then nothing more until its context ends.
func stalls(pause time.Duration, pieces ...string) turn {
	return func(ctx context.Context, send func(*schema.Message)) error {
		for _, piece := range pieces {
			time.Sleep(pause)
			send(schema.AssistantMessage(piece, nil))
		}
		return until(ctx)
	}
}

// until is work that hangs until its context ends, and deaf is work that ignores it.
func until(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func deaf(context.Context) error {
	time.Sleep(time.Hour)
	return errors.New("much too late")
}

// A named is what all tools of the tests have.
type named string

func (n named) Info(context.Context) (*schema.ToolInfo, error) {
	return &schema.ToolInfo{Name: string(n), Desc: "a tool"}, nil
}

type invokable struct {
	named
	run func(ctx context.Context) (string, error)
}

func (t invokable) InvokableRun(ctx context.Context, _ string, _ ...tool.Option) (string, error) {
	return t.run(ctx)
}

type streamable struct {
	named
	run func(ctx context.Context, send func(string) bool) error
}

func (t streamable) StreamableRun(ctx context.Context, _ string, _ ...tool.Option) (*schema.StreamReader[string], error) {
	return piped(func(send func(string) bool) error { return t.run(ctx, send) }), nil
}

type enhanced struct{ invokable }

func (t enhanced) InvokableRun(ctx context.Context, _ *schema.ToolArgument, _ ...tool.Option) (*schema.ToolResult, error) {
	text, err := t.run(ctx)
	return result(text), err
}

type enhancedStreamable struct{ streamable }

func (t enhancedStreamable) StreamableRun(
	ctx context.Context, _ *schema.ToolArgument, _ ...tool.Option,
) (*schema.StreamReader[*schema.ToolResult], error) {
	return piped(func(send func(*schema.ToolResult) bool) error {
		return t.run(ctx, func(text string) bool { return send(result(text)) })
	}), nil
}

func result(text string) *schema.ToolResult {
	return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: text}}}
}

// kinds are a tool in each form that the SDK has. Those that stream send a piece before the work.
func kinds(name string, work func(context.Context) error) map[string]tool.BaseTool {
	at := invokable{named(name), func(ctx context.Context) (string, error) { return "one nail", work(ctx) }}
	in := streamable{named(name), func(ctx context.Context, send func(string) bool) error {
		send("one nail")
		return work(ctx)
	}}
	return map[string]tool.BaseTool{
		"invokable": at, "streamable": in, "enhanced": enhanced{at}, "enhanced streamable": enhancedStreamable{in},
	}
}

// hammer is a tool of the first kind.
func hammer(name string, work func(context.Context) error) tool.BaseTool {
	return kinds(name, work)["invokable"]
}

// newAgent is an agent whose model and tools are guarded.
func newAgent(t *testing.T, g *watchdogeino.Guard, m model.ToolCallingChatModel, tools ...tool.BaseTool) adk.Agent {
	t.Helper()
	agent, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{
		Name: "helper", Description: "helps", Model: g.Model(m), ToolsConfig: adk.ToolsConfig{
			ToolsNodeConfig: compose.ToolsNodeConfig{
				Tools: tools, ToolCallMiddlewares: []compose.ToolMiddleware{g.ToolMiddleware()},
			},
		},
	})
	require.NoError(t, err)
	return agent
}

// ask runs an agent and returns the text of its last message.
func ask(ctx context.Context, agent adk.Agent, streaming bool) (string, error) {
	runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent, EnableStreaming: streaming})
	return drain(runner.Query(ctx, "go on"))
}

// drain returns the text of the last message. It reads the streams of events only afterwards: in a bubble their second
// reader waits for a mutex, which holds the fake time.
func drain(events *adk.AsyncIterator[*adk.AgentEvent]) (last string, err error) {
	var streams []adk.MessageStream
	for event, more := events.Next(); more; event, more = events.Next() {
		if event.Err != nil {
			err = event.Err
		}
		if event.Output == nil || event.Output.MessageOutput == nil {
			continue
		}
		out := event.Output.MessageOutput
		if !out.IsStreaming {
			out.MessageStream = schema.StreamReaderFromArray([]*schema.Message{out.Message})
		}
		streams = append(streams, out.MessageStream)
	}
	for _, stream := range streams {
		last = readAll(stream)
	}
	return last, err
}

func readAll(stream adk.MessageStream) (text string) {
	defer stream.Close()
	for {
		m, err := stream.Recv()
		if err != nil || m == nil { // nil after a panic of its source, in the SDK's copy of a stream
			return text
		}
		text += textOf(m)
	}
}

// newRun begins a run that is kept in memory and closed with the test.
func newRun(tb testing.TB, budget watchdog.Budget) *watchdog.Watchdog {
	tb.Helper()
	wd, err := watchdog.New(tb.Context(), watchdog.Run{}, watchdog.Config{
		Budget: budget, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, wd.Close()) })
	return wd
}

// stopped checks why a run has ended: the SDK's own error may not say that.
func stopped(t *testing.T, wd *watchdog.Watchdog, code watchdog.StopReason) {
	t.Helper()
	var stop *watchdog.Stop
	require.ErrorAs(t, context.Cause(wd.Context()), &stop)
	require.Equal(t, code, stop.Code)
}

// within checks a time that a limit took: it is exceeded a nanosecond after it.
func within(t *testing.T, want, took time.Duration) {
	t.Helper()
	require.InDelta(t, want, took, float64(100*time.Nanosecond))
}

// eachWay runs a test with and without streaming, in a bubble of fake time.
func eachWay(t *testing.T, name string, test func(t *testing.T, streaming bool)) {
	t.Helper()
	for _, way := range []string{"at once", "streaming"} {
		t.Run(name+" "+way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, way == "streaming") })
		})
	}
}
