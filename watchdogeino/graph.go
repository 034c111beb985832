package watchdogeino

import (
	"context"
	"encoding/json"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
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
			return streamed(m.guard, texts, next,
				func(out *compose.StreamToolOutput) **schema.StreamReader[string] { return &out.Result })
		},
		EnhancedInvokable: func(next compose.EnhancedInvokableToolEndpoint) compose.EnhancedInvokableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
				return answer(ctx, m.guard, toolCall(in.Name, in.Arguments), enhancedOutputs,
					func(ctx context.Context) (*compose.EnhancedInvokableToolOutput, error) { return next(ctx, in) })
			}
		},
		EnhancedStreamable: func(next compose.EnhancedStreamableToolEndpoint) compose.EnhancedStreamableToolEndpoint {
			return streamed(m.guard, results, next,
				func(out *compose.EnhancedStreamableToolOutput) **schema.StreamReader[*schema.ToolResult] {
					return &out.Result
				})
		},
	}
}

// streamed guards an endpoint that streams its answer: that is the field of its output.
func streamed[T, Output any](
	g *adapter.Guard, f form[T], next func(context.Context, *compose.ToolInput) (*Output, error),
	field func(*Output) **schema.StreamReader[T],
) func(context.Context, *compose.ToolInput) (*Output, error) {
	return func(ctx context.Context, in *compose.ToolInput) (*Output, error) {
		stream, err := answers(ctx, g, toolCall(in.Name, in.Arguments), f,
			func(ctx context.Context) (*schema.StreamReader[T], error) {
				out, err := next(ctx, in)
				if err != nil {
					return nil, err
				}
				return *field(out), nil
			})
		if err != nil {
			return nil, err
		}
		out := new(Output)
		*field(out) = stream
		return out, nil
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

// A form is what answers of a kind of tool are made of.
type form[T any] struct {
	text func(T) []byte                  // for the detector of loops
	say  func(text string, first bool) T // an answer, or a piece of one, that the model reads
}

var texts = form[string]{
	text: func(s string) []byte { return []byte(s) },
	say:  apart,
}

var results = form[*schema.ToolResult]{
	text: func(r *schema.ToolResult) []byte {
		text, _ := json.Marshal(r) // plain data
		return text
	},
	say: func(text string, first bool) *schema.ToolResult {
		return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: apart(text, first)}}}
	},
}

// apart keeps a text apart from the piece before it.
func apart(text string, first bool) string {
	if first {
		return text
	}
	return "\n\n" + text
}

// toolCall is a call of a tool. One that asks a person, or is told to stop for now, is none yet.
func toolCall(name, input string) adapter.ToolCall {
	return adapter.ToolCall{Tool: name, Input: []byte(input), Paused: func(err error) bool {
		_, interrupted := compose.IsInterruptRerunError(err)
		return interrupted
	}}
}

// answer makes a call of a tool that answers at once.
func answer[T any](
	ctx context.Context, g *adapter.Guard, call adapter.ToolCall, f form[T], work func(context.Context) (T, error),
) (T, error) {
	call.Agent = agentOf(ctx)
	result, ended, err := adapter.Do(ctx, g, call, work, f.text)
	if ended != nil {
		return f.say(ended.Text(), true), nil
	}
	return result, err
}

// answers makes a call of a tool that streams its answer. The call lasts until its stream ends.
func answers[T any](
	ctx context.Context, g *adapter.Guard, call adapter.ToolCall, f form[T],
	open func(context.Context) (*schema.StreamReader[T], error),
) (*schema.StreamReader[T], error) {
	call.Agent = agentOf(ctx)
	return begin(ctx, func(ctx context.Context, out *stream[T]) error {
		work := func(ctx context.Context) ([]byte, error) { return f.relay(ctx, out, open) }
		_, ended, err := adapter.Do(ctx, g, call, work, func(all []byte) []byte { return all })
		if ended != nil {
			out.push(f.say(ended.Text(), !out.hasPiece()))
		}
		return err
	})
}

// relay passes a stream on and returns what was in it.
func (f form[T]) relay(
	ctx context.Context, out *stream[T], open func(context.Context) (*schema.StreamReader[T], error),
) (all []byte, err error) {
	in, err := open(ctx)
	if err != nil {
		return nil, err
	}
	wd := watchdog.FromContext(ctx)
	return all, out.relay(ctx, in, func(piece T) {
		wd.Activity()
		all = append(all, f.text(piece)...)
	})
}
