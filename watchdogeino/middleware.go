package watchdogeino

import (
	"context"
	"slices"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
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
