package watchdogeino

import (
	"context"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
)

// ToolMiddleware guards the tools of a compose.ToolsNode, for a graph without an agent of the adk. It belongs first in
// ToolsNodeConfig.ToolCallMiddlewares. The detector of loops sees the calls only if [Middleware.Model] guards the model
// that makes them.
func (m *Middleware) ToolMiddleware() compose.ToolMiddleware {
	return compose.ToolMiddleware{
		Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
				return answer(ctx, m.guard, toolCall(in.Name, in.Arguments), outputs,
					func(ctx context.Context) (*compose.ToolOutput, error) { return next(ctx, in) })
			}
		},
		Streamable: func(next compose.StreamableToolEndpoint) compose.StreamableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.StreamToolOutput, error) {
				out, err := answers(ctx, m.guard, toolCall(in.Name, in.Arguments), texts,
					func(ctx context.Context) (*schema.StreamReader[string], error) {
						out, err := next(ctx, in)
						if err != nil {
							return nil, err
						}
						return out.Result, nil
					})
				if err != nil {
					return nil, err
				}
				return &compose.StreamToolOutput{Result: out}, nil
			}
		},
		EnhancedInvokable:  m.enhanced,
		EnhancedStreamable: m.enhancedStream,
	}
}

func (m *Middleware) enhanced(next compose.EnhancedInvokableToolEndpoint) compose.EnhancedInvokableToolEndpoint {
	return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
		return answer(ctx, m.guard, toolCall(in.Name, in.Arguments), enhancedOutputs,
			func(ctx context.Context) (*compose.EnhancedInvokableToolOutput, error) { return next(ctx, in) })
	}
}

func (m *Middleware) enhancedStream(
	next compose.EnhancedStreamableToolEndpoint,
) compose.EnhancedStreamableToolEndpoint {
	return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedStreamableToolOutput, error) {
		out, err := answers(ctx, m.guard, toolCall(in.Name, in.Arguments), results,
			func(ctx context.Context) (*schema.StreamReader[*schema.ToolResult], error) {
				out, err := next(ctx, in)
				if err != nil {
					return nil, err
				}
				return out.Result, nil
			})
		if err != nil {
			return nil, err
		}
		return &compose.EnhancedStreamableToolOutput{Result: out}, nil
	}
}

var outputs = form[*compose.ToolOutput]{
	text: func(o *compose.ToolOutput) []byte { return texts.text(o.Result) },
	say: func(text string, first bool) *compose.ToolOutput {
		return &compose.ToolOutput{Result: texts.say(text, first)}
	},
}

var enhancedOutputs = form[*compose.EnhancedInvokableToolOutput]{
	text: func(o *compose.EnhancedInvokableToolOutput) []byte { return results.text(o.Result) },
	say: func(text string, first bool) *compose.EnhancedInvokableToolOutput {
		return &compose.EnhancedInvokableToolOutput{Result: results.say(text, first)}
	},
}

// Model guards a model that no agent of the adk calls, such as one in a graph. What the run asks of the agent is added
// to the messages of one call, and whoever keeps the history does not see it. The model may be shared.
func (m *Middleware) Model(inner model.ToolCallingChatModel) model.ToolCallingChatModel {
	return &toolCalling{guarded{guard: m.guard, inner: inner}, inner}
}

type toolCalling struct {
	guarded
	inner model.ToolCallingChatModel
}

// WithTools returns a guarded model that knows the tools.
func (m *toolCalling) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	inner, err := m.inner.WithTools(tools)
	if err != nil {
		return nil, err
	}
	return &toolCalling{guarded{guard: m.guard, inner: inner, bound: tools}, inner}, nil
}
