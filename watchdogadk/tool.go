package watchdogadk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/toolutils"

	"github.com/seed62658d38/watchdog/internal/adapter"
)

// A runnable is a tool that runs here. The SDK knows it by its methods, too.
type runnable interface {
	tool.Tool
	Declaration() *genai.FunctionDeclaration
	Run(ctx agent.Context, args any) (map[string]any, error)
}

// A requester is a tool, or a set of tools, that adds itself to the requests of the model.
type requester interface {
	ProcessRequest(ctx agent.Context, req *model.LLMRequest) error
}

// Tool returns the tool with each call guarded: in the run of its context a call opens a hold, is a layer, counts as a
// call of the tool, and is a step of the detector of loops. Its context ends at the limits of the guard's [Config].
//
// If the call is ended by them, or does not fit in a limit of the run, the model is answered with a map whose "error"
// says what happened and what it can do; the agent goes on. What a call that was ended did to its context's actions,
// state and artifacts' versions is dropped, because it may still be doing so: a call has a copy of the actions, which
// is merged when it returns in time. So another tool of the same turn sees a change of the state when the call has
// returned, and not before. The arguments are a copy, too.
//
// A tool that panics is answered with an error, as a panic in a tool of functiontool is: nobody could recover it. A
// streaming tool is guarded likewise, see [Guard.Tools]. A tool that does not run here, such as a search by the model's
// provider, is returned as it is, and so is one that is guarded already.
func (g *Guard) Tool(t tool.Tool) tool.Tool {
	switch t := t.(type) {
	case *guarded, *guardedStream:
		return t
	case streaming:
		return &guardedStream{streaming: t, guard: g}
	case runnable:
		return &guarded{runnable: t, guard: g}
	}
	return t
}

// Tools returns each of the tools guarded by [Guard.Tool]. Each piece of a streaming tool is a sign of life; if the
// call is ended, the text that says so is its last piece, after those that came.
func (g *Guard) Tools(tools ...tool.Tool) []tool.Tool { return each(tools, g.Tool) }

func each[T any](bare []T, guarded func(T) T) []T {
	all := make([]T, len(bare))
	for i, one := range bare {
		all[i] = guarded(one)
	}
	return all
}

type guarded struct {
	runnable
	guard *Guard
}

// ProcessRequest has the guarded tool called instead of the one in it.
func (t *guarded) ProcessRequest(ctx agent.Context, req *model.LLMRequest) error {
	return process(ctx, req, t.runnable, t)
}

// DefersResponse is for the tool in it, which may leave its answer to somebody else.
func (t *guarded) DefersResponse() bool { return defers(t.runnable) }

// Run calls the tool.
func (t *guarded) Run(ctx agent.Context, args any) (map[string]any, error) {
	c, call := newCall(ctx), toolCall(ctx, t, args)
	got, ended, err := adapter.Do(t.guard.within(ctx), t.guard.calls, call, func(work context.Context) (answer, error) {
		return t.call(work, c, args)
	}, func(a answer) []byte { return text(a.result) })
	if ended != nil {
		return told(ended), nil
	}
	if c.merge(); got.asks != nil {
		return got.result, got.asks
	}
	return got.result, err
}

// An answer of a tool. That a person has to approve of the call first is an answer, and no failure of the tool.
type answer struct {
	result map[string]any
	asks   error
}

func (t *guarded) call(work context.Context, c *call, args any) (a answer, err error) {
	defer func() { t.guard.returned(work, t.Name(), c, recover(), &err) }()
	a.result, err = t.runnable.Run(c.context(work), copied(args))
	if errors.Is(err, tool.ErrConfirmationRequired) {
		return answer{result: a.result, asks: err}, nil
	}
	return a, err
}

func toolCall(ctx agent.Context, t tool.Tool, args any) adapter.ToolCall {
	return adapter.ToolCall{Tool: t.Name(), Input: text(args), Agent: agentOf(ctx)}
}

// returned ends a call of a tool. If the tool panicked with a value, it logs that, but for what the value says, and err
// is what the model is told.
func (g *Guard) returned(ctx context.Context, tool string, c *call, value any, err *error) {
	if value != nil {
		g.log(ctx).Error("tool panicked",
			"tool", tool, "panic_type", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
		*err = fmt.Errorf("the tool %q panicked; parts of it may have been done", tool)
	}
	c.returned()
}

// told is the answer of a call that was ended. The SDK says so of errors in the same form.
func told(ended *adapter.Ended) map[string]any { return map[string]any{"error": ended.Text()} }

// process has a tool add itself to a request, and puts the guarded one in its place.
func process(ctx agent.Context, req *model.LLMRequest, bare toolutils.Tool, guarded toolutils.Tool) error {
	r, ok := bare.(requester)
	if !ok {
		return toolutils.PackTool(req, guarded)
	}
	if err := r.ProcessRequest(ctx, req); err != nil {
		return err
	}
	for name, t := range req.Tools {
		if t == bare {
			req.Tools[name] = guarded
		}
	}
	return nil
}

func defers(t tool.Tool) bool {
	d, ok := t.(interface{ DefersResponse() bool })
	return ok && d.DefersResponse()
}

// text is what the detector of loops compares. What cannot be written as JSON is compared as one and the same.
func text(v any) []byte {
	written, _ := json.Marshal(v)
	return written
}

// copied returns the arguments as a value of their own, since the runner reads them while an abandoned tool may write.
func copied(args any) any {
	switch v := args.(type) {
	case map[string]any:
		own := make(map[string]any, len(v))
		for key, value := range v {
			own[key] = copied(value)
		}
		return own
	case []any:
		own := make([]any, len(v))
		for i, value := range v {
			own[i] = copied(value)
		}
		return own
	}
	return args
}

// Toolset returns the set with each of its tools guarded by [Guard.Tool], such as those of an MCP server. Listing the
// tools is not bounded: that is silence of the run, whose context the set has.
func (g *Guard) Toolset(set tool.Toolset) tool.Toolset {
	if _, ok := set.(*guardedSet); ok {
		return set
	}
	return &guardedSet{Toolset: set, guard: g}
}

// Toolsets returns each of the sets guarded by [Guard.Toolset].
func (g *Guard) Toolsets(sets ...tool.Toolset) []tool.Toolset { return each(sets, g.Toolset) }

type guardedSet struct {
	tool.Toolset
	guard *Guard
}

// Tools returns the tools, guarded.
func (s *guardedSet) Tools(ctx agent.ReadonlyContext) ([]tool.Tool, error) {
	tools, err := s.Toolset.Tools(ctx)
	if err != nil {
		return nil, err
	}
	return s.guard.Tools(tools...), nil
}

// ProcessRequest is for a set that adds something to the requests of the model.
func (s *guardedSet) ProcessRequest(ctx agent.Context, req *model.LLMRequest) error {
	if r, ok := s.Toolset.(requester); ok {
		return r.ProcessRequest(ctx, req)
	}
	return nil
}
