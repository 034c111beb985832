package watchdogeino

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/idle"
)

// ToolMiddleware returns what guards the calls of tools of all four kinds, the first of ToolCallMiddlewares: each is a
// hold of the run, and ends at the limits of the [Config]. Then the model reads what happened and what it can do.
//
// A call that interrupts the agent, to ask a person, holds the run, and stops its wall clock, until it is made again.
func (g *Guard) ToolMiddleware() compose.ToolMiddleware {
	return compose.ToolMiddleware{
		Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
			return once(g, next, func(text string) *compose.ToolOutput { return &compose.ToolOutput{Result: text} })
		},
		EnhancedInvokable: func(next compose.EnhancedInvokableToolEndpoint) compose.EnhancedInvokableToolEndpoint {
			return once(g, next, func(text string) *compose.EnhancedInvokableToolOutput {
				return &compose.EnhancedInvokableToolOutput{Result: result(text)}
			})
		},
		Streamable: func(next compose.StreamableToolEndpoint) compose.StreamableToolEndpoint {
			return streamed(g, next, func(text string) string { return text },
				func(out *compose.StreamToolOutput) **schema.StreamReader[string] { return &out.Result })
		},
		EnhancedStreamable: func(next compose.EnhancedStreamableToolEndpoint) compose.EnhancedStreamableToolEndpoint {
			return streamed(g, next, result,
				func(out *compose.EnhancedStreamableToolOutput) **schema.StreamReader[*schema.ToolResult] {
					return &out.Result
				})
		},
	}
}

func result(text string) *schema.ToolResult {
	return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: text}}}
}

type endpoint[Output any] = func(context.Context, *compose.ToolInput) (*Output, error)

// once guards a tool that answers at once.
func once[Output any](g *Guard, next endpoint[Output], say func(string) *Output) endpoint[Output] {
	return func(ctx context.Context, in *compose.ToolInput) (*Output, error) {
		return call(ctx, g, in, say, func(ctx context.Context) (*Output, error) { return next(ctx, in) })
	}
}

// streamed guards a tool that streams its answer, which is a field of its output. The call lasts until the stream ends.
func streamed[T, Output any](
	g *Guard, next endpoint[Output], say func(string) T, field func(*Output) **schema.StreamReader[T],
) endpoint[Output] {
	return func(ctx context.Context, in *compose.ToolInput) (*Output, error) {
		stream, err := pump(func(f *flow[T]) error {
			last := func(told string) *Output { f.send(say("\n\n"+told), nil); return nil }
			_, err := call(ctx, g, in, last, func(ctx context.Context) (out *Output, err error) {
				if out, err = next(ctx, in); err == nil {
					err = f.relay(ctx, *field(out))
				}
				return out, err
			})
			return err
		})
		out := new(Output)
		*field(out) = stream
		return out, err
	}
}

// call makes one call of a tool, under a hold with a key of its own: a silent tool is no silence of the run. If the
// call's own limits have ended it, the answer is what say makes of that, for the model: the agent goes on.
func call[T any](
	ctx context.Context, g *Guard, in *compose.ToolInput, say func(string) T, work func(context.Context) (T, error),
) (T, error) {
	wd, key := watchdog.FromContext(ctx), fmt.Sprintf("%.64q %s", in.Name, rand.Text())
	if asked, _, _ := tool.GetInterruptState[any](ctx); asked {
		g.ask(wd, in.CallID) // takes over the hold of a process that is gone
		if hold, ok := g.kept.LoadAndDelete(wd.ID() + in.CallID); ok {
			hold.(*watchdog.Hold).Close()
		}
	}
	hold, err := wd.Hold(context.WithoutCancel(ctx), key, watchdog.HoldLimit{Cap: watchdog.NoLimit}) // through the grace
	if err != nil {
		return *new(T), err
	}
	defer hold.Close()
	own, all := g.cfg.Tool[in.Name], g.cfg.Tools
	silence := cmp.Or(own.Idle, all.Idle)
	within, timer := idle.WithLimit(ctx, silence)
	defer timer.Close()
	out := bound.Do(within, bound.Call{
		Limit: cmp.Or(own.Limit, all.Limit), Grace: cmp.Or(own.Grace, all.Grace, DefaultGrace),
	}, work)
	if _, asks := compose.IsInterruptRerunError(out.Err); asks {
		g.ask(wd, in.CallID)
	}
	if out.Layer == bound.LayerNone || ctx.Err() != nil {
		return out.Result, out.Err
	}
	why := fmt.Sprintf("it gave no sign of life for its limit of %v", silence)
	if out.Overran() {
		why = fmt.Sprintf("it did not finish within its limit of %v", out.Limit)
	}
	still := "Parts of it may have been done."
	if out.Abandoned {
		still = "It did not stop when it was told to and may still be running."
	}
	return say(fmt.Sprintf("The call of the tool %q was ended: %s. %s Look at what is there before you call it again, "+
		"and then with less to do or in another way.", in.Name, why, still)), nil
}
