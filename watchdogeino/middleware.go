package watchdogeino

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

// Config says how the calls of an agent are guarded. The zero value bounds every tool by half an hour and counts. An
// agent that is a tool is bounded as one: give it a limit of its own by its name.
type Config = adapter.Config

// Limits bound one call of a tool: its time, its silence, and how long it has to return after that.
type Limits = adapter.Limits

// A Middleware guards the agents that have it among their Handlers. Put it first there, so that what other middlewares
// do in a call is a part of the call; and once, because each counts. It is safe for concurrent use; agents and runs can
// share one. It needs no AfterAgent, which the SDK does not call after an error: what a call opens ends with the call.
type Middleware struct {
	*adk.BaseChatModelAgentMiddleware
	guard *adapter.Guard
}

var _ adk.ChatModelAgentMiddleware = (*Middleware)(nil)

// New returns a middleware. It copies cfg, but not its map.
func New(cfg Config) *Middleware {
	return &Middleware{&adk.BaseChatModelAgentMiddleware{}, adapter.New(cfg)}
}

// BeforeAgent notes that an agent begins to work, with what a person said.
func (m *Middleware) BeforeAgent(
	ctx context.Context, agent *adk.ChatModelAgentContext,
) (context.Context, *adk.ChatModelAgentContext, error) {
	return withFirst(ctx), agent, nil
}

// BeforeModelRewriteState adds what the run asks of the agent to the agent's messages. It stays in its history.
func (m *Middleware) BeforeModelRewriteState(
	ctx context.Context, state *adk.ChatModelAgentState, _ *adk.ModelContext,
) (context.Context, *adk.ChatModelAgentState, error) {
	if wd := watchdog.FromContext(ctx); wd != nil {
		wd.Activity()
		hear(ctx, m.guard, state.Messages)
		state.Messages = with(slices.Clip(state.Messages), m.guard.Turn(ctx, wd, agentOf(ctx)))
	}
	ctx = context.WithValue(ctx, lateKey{}, &late{})
	return ctx, state, nil
}

// AfterModelRewriteState adds what the model was asked while it was called, in front of its answer.
func (m *Middleware) AfterModelRewriteState(
	ctx context.Context, state *adk.ChatModelAgentState, _ *adk.ModelContext,
) (context.Context, *adk.ChatModelAgentState, error) {
	if at := len(state.Messages) - 1; at >= 0 {
		answer := state.Messages[at]
		state.Messages = append(with(state.Messages[:at:at], lateOf(ctx).texts), answer)
	}
	return ctx, state, nil
}

// WrapModel guards a model. It needs no agent: a nil context of the model and one without a run are fine, too.
func (m *Middleware) WrapModel(
	_ context.Context, inner model.BaseChatModel, _ *adk.ModelContext,
) (model.BaseChatModel, error) {
	return &guarded{guard: m.guard, inner: inner}, nil
}

// WrapInvokableToolCall guards a call of a tool that answers with a text.
func (m *Middleware) WrapInvokableToolCall(
	_ context.Context, next adk.InvokableToolCallEndpoint, tc *adk.ToolContext,
) (adk.InvokableToolCallEndpoint, error) {
	return func(ctx context.Context, input string, opts ...tool.Option) (string, error) {
		call := func(ctx context.Context) (string, error) { return next(ctx, input, opts...) }
		return answer(ctx, m.guard, toolCall(tc.Name, input), texts, call)
	}, nil
}

// WrapStreamableToolCall guards a call of a tool that answers with a stream of text, until that ends or is closed.
func (m *Middleware) WrapStreamableToolCall(
	_ context.Context, next adk.StreamableToolCallEndpoint, tc *adk.ToolContext,
) (adk.StreamableToolCallEndpoint, error) {
	return func(ctx context.Context, input string, opts ...tool.Option) (*schema.StreamReader[string], error) {
		call := func(ctx context.Context) (*schema.StreamReader[string], error) { return next(ctx, input, opts...) }
		return answers(ctx, m.guard, toolCall(tc.Name, input), texts, call)
	}, nil
}

// WrapEnhancedInvokableToolCall guards a call of a tool that answers with texts, pictures and files.
func (m *Middleware) WrapEnhancedInvokableToolCall(
	_ context.Context, next adk.EnhancedInvokableToolCallEndpoint, tc *adk.ToolContext,
) (adk.EnhancedInvokableToolCallEndpoint, error) {
	return func(ctx context.Context, input *schema.ToolArgument, opts ...tool.Option) (*schema.ToolResult, error) {
		call := func(ctx context.Context) (*schema.ToolResult, error) { return next(ctx, input, opts...) }
		return answer(ctx, m.guard, toolCall(tc.Name, argument(input)), results, call)
	}, nil
}

// WrapEnhancedStreamableToolCall guards a call of a tool that streams texts, pictures and files.
func (m *Middleware) WrapEnhancedStreamableToolCall(
	_ context.Context, next adk.EnhancedStreamableToolCallEndpoint, tc *adk.ToolContext,
) (adk.EnhancedStreamableToolCallEndpoint, error) {
	return func(
		ctx context.Context, input *schema.ToolArgument, opts ...tool.Option,
	) (*schema.StreamReader[*schema.ToolResult], error) {
		call := func(ctx context.Context) (*schema.StreamReader[*schema.ToolResult], error) {
			return next(ctx, input, opts...)
		}
		return answers(ctx, m.guard, toolCall(tc.Name, argument(input)), results, call)
	}, nil
}

func argument(a *schema.ToolArgument) string {
	if a == nil {
		return ""
	}
	return a.Text
}

// agentOf returns the name of the agent that makes a call in ctx, empty for one that works alone: in the run, or in a
// tool of another agent.
func agentOf(ctx context.Context) (name string) {
	for i, s := range outOfTools(compose.GetCurrentAddress(ctx)) {
		if s.Type == adk.AddressSegmentAgent && i > 0 {
			name = s.ID
		}
	}
	return name
}

// outOfTools is the part of an address behind the last tool with something in it.
func outOfTools(address compose.Address) compose.Address {
	for i, s := range address {
		if s.Type == adk.AddressSegmentTool && i < len(address)-1 {
			return outOfTools(address[i+1:])
		}
	}
	return address
}

// firstKey is what the context of an agent has that a person speaks to: a [sync.Once], because only what it is sent
// first are the words of the person.
type firstKey struct{}

// withFirst returns the context of an agent that begins to work. A person speaks to one that works alone: what others
// are sent may be put together by the SDK.
func withFirst(ctx context.Context) context.Context {
	address := compose.GetCurrentAddress(ctx)
	if agentOf(ctx) != "" || len(outOfTools(address)) != len(address) {
		return ctx
	}
	return context.WithValue(ctx, firstKey{}, &sync.Once{})
}

// hear tells the run of ctx, once for each time that an agent works, of the last words in the role of the user, but for
// those of directives.
func hear(ctx context.Context, g *adapter.Guard, messages []*schema.Message) {
	first, ok := ctx.Value(firstKey{}).(*sync.Once)
	if !ok {
		return
	}
	first.Do(func() {
		for _, m := range slices.Backward(messages) {
			if m == nil || m.Role != schema.User {
				continue
			}
			if words := wordsOf(m); !adapter.IsDirective(words) {
				g.Said(ctx, adapter.Said{Words: func() string { return words }})
				return
			}
		}
	})
}

func wordsOf(m *schema.Message) string {
	var words strings.Builder
	words.WriteString(m.Content)
	for _, part := range m.MultiContent {
		words.WriteString(part.Text)
	}
	for _, part := range m.UserInputMultiContent {
		words.WriteString(part.Text)
	}
	return words.String()
}
