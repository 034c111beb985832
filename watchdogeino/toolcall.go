package watchdogeino

import (
	"context"
	"encoding/json"

	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

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
