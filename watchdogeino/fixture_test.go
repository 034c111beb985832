package watchdogeino_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter/adaptertest"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

var limits = watchdogeino.Config{Tools: watchdogeino.Limits{Limit: 10 * time.Minute, Grace: 5 * time.Second}}

// A turn is one answer of a model: it sends pieces.
type turn func(ctx context.Context, send func(*schema.Message)) error

// A script is a model that answers with one turn after the other, and with the last ever after.
type script struct {
	turns []turn

	mu   sync.Mutex
	seen [][]*schema.Message // what each call was sent
}

func scripted(turns ...turn) *script { return &script{turns: turns} }

func (s *script) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return s, nil }

func (s *script) next(in []*schema.Message) turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, in)
	return s.turns[min(len(s.seen), len(s.turns))-1]
}

// sent is what the call of that number was sent.
func (s *script) sent(call int) []*schema.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call >= len(s.seen) {
		return nil
	}
	return s.seen[call]
}

// last is the text of the last message that a call was sent.
func (s *script) last(call int) string {
	sent := s.sent(call)
	if len(sent) == 0 {
		return ""
	}
	return textOf(sent[len(sent)-1])
}

func (s *script) calls() int {
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
			var none T
			writer.Send(none, err)
		}
	}()
	return reader
}

func says(pieces ...string) turn {
	return func(_ context.Context, send func(*schema.Message)) error {
		for _, piece := range pieces {
			send(schema.AssistantMessage(piece, nil))
		}
		return nil
	}
}

// calls asks for a call of each tool, with its own name as the input.
func calls(tools ...string) turn {
	var asked []schema.ToolCall
	for i, name := range tools {
		asked = append(asked, schema.ToolCall{
			Index: &i, ID: fmt.Sprintf("call-%d", i), Type: "function",
			Function: schema.FunctionCall{Name: name, Arguments: fmt.Sprintf(`{"request":%q}`, name)},
		})
	}
	return func(_ context.Context, send func(*schema.Message)) error {
		send(schema.AssistantMessage("", asked))
		return nil
	}
}

// costs ends a turn with what it used.
func costs(inner turn, input, output int) turn {
	return func(ctx context.Context, send func(*schema.Message)) error {
		if err := inner(ctx, send); err != nil {
			return err
		}
		usage := &schema.TokenUsage{PromptTokens: input, CompletionTokens: output, TotalTokens: input + output}
		send(&schema.Message{Role: schema.Assistant, ResponseMeta: &schema.ResponseMeta{Usage: usage}})
		return nil
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
	run func(ctx context.Context, input string) (string, error)
}

func (t invokable) InvokableRun(ctx context.Context, input string, _ ...tool.Option) (string, error) {
	return t.run(ctx, input)
}

type streamable struct {
	named
	run func(ctx context.Context, send func(string) bool) error
}

func (t streamable) StreamableRun(ctx context.Context, _ string, _ ...tool.Option) (*schema.StreamReader[string], error) {
	return piped(func(send func(string) bool) error { return t.run(ctx, send) }), nil
}

type enhanced struct{ invokable }

func (t enhanced) InvokableRun(ctx context.Context, in *schema.ToolArgument, _ ...tool.Option) (*schema.ToolResult, error) {
	text, err := t.run(ctx, in.Text)
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

var newRun = adaptertest.NewRun

// stopped checks why a run has ended.
func stopped(t *testing.T, wd *watchdog.Watchdog, why watchdog.StopReason) {
	t.Helper()
	stop := wd.Stop()
	require.NotNil(t, stop)
	require.ErrorIs(t, stop, why)
}

// newAgent is an agent whose calls are guarded.
func newAgent(t *testing.T, guard *watchdogeino.Middleware, m model.BaseChatModel, tools ...tool.BaseTool) adk.Agent {
	t.Helper()
	return newNamed(t, guard, "helper", m, tools...)
}

// newNamed is an agent of a name. Without a guard its calls are not guarded.
func newNamed(
	t *testing.T, guard *watchdogeino.Middleware, name string, m model.BaseChatModel, tools ...tool.BaseTool,
) adk.Agent {
	t.Helper()
	cfg := &adk.ChatModelAgentConfig{
		Name: name, Description: "helps", Model: m, MaxIterations: 50,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: tools}},
	}
	if guard != nil {
		cfg.Handlers = []adk.ChatModelAgentMiddleware{guard}
	}
	agent, err := adk.NewChatModelAgent(t.Context(), cfg)
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
	for {
		event, more := events.Next()
		if !more {
			break
		}
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
		if err != nil {
			return text
		}
		if m == nil { // after a panic of its source, in the SDK's copy of a stream
			return text
		}
		text += textOf(m)
	}
}

// pieces reads a stream of a tool to its end.
func pieces(stream *schema.StreamReader[string]) (all []string, err error) {
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, piece)
	}
}

// eachWay runs a test with and without streaming, in a bubble of its own.
func eachWay(t *testing.T, name string, test func(t *testing.T, streaming bool)) {
	t.Helper()
	bubble(t, name+" at once", func(t *testing.T) { test(t, false) })
	bubble(t, name+" streaming", func(t *testing.T) { test(t, true) })
}

// within checks a time that a limit took: it is exceeded a nanosecond after it.
func within(t *testing.T, want, took time.Duration) {
	t.Helper()
	require.InDelta(t, want, took, float64(100*time.Nanosecond))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a subtest with fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
