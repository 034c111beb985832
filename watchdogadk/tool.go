package watchdogadk

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"maps"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/toolutils"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/idle"
)

// Tool returns the tool with each call guarded: it is a hold of the run, and ends at the limits of the [Config]. Then
// the model is answered with a map whose "error" says what happened and what it can do. What a call does to its
// context's actions counts once it has returned in time. A tool that streams answers at its end. Tools that run at the
// model's provider are returned as they are.
//
// A call that asks for a person's approval holds the run, and stops its wall clock, until it is made again.
func (g *Guard) Tool(t tool.Tool) tool.Tool {
	switch t := t.(type) {
	case runnable:
		return &guarded{t, t.Run, g}
	case streaming:
		return &guarded{t, collecting(t), g}
	}
	return t
}

// Tools returns each of the tools guarded, see [Guard.Tool].
func (g *Guard) Tools(tools ...tool.Tool) []tool.Tool { return each(tools, g.Tool) }

// Toolsets returns the sets with their tools guarded, see [Guard.Tool]. Listing the tools is not bounded.
func (g *Guard) Toolsets(sets ...tool.Toolset) []tool.Toolset {
	return each(sets, func(s tool.Toolset) tool.Toolset { return &guardedSet{s, g} })
}

func each[T any](bare []T, guard func(T) T) (all []T) {
	for _, one := range bare {
		all = append(all, guard(one))
	}
	return all
}

// What the SDK knows tools, and what adds something to requests, by.
type (
	declared interface {
		tool.Tool
		toolutils.Tool
	}
	runnable interface {
		declared
		Run(ctx agent.Context, args any) (map[string]any, error)
	}
	streaming interface {
		declared
		RunStream(ctx agent.Context, args any) iter.Seq2[string, error]
	}
	requester interface {
		ProcessRequest(agent.Context, *model.LLMRequest) error
	}
)

type guardedSet struct {
	tool.Toolset
	guard *Guard
}

// Tools returns the tools, guarded.
func (s *guardedSet) Tools(ctx agent.ReadonlyContext) ([]tool.Tool, error) {
	tools, err := s.Toolset.Tools(ctx)
	return s.guard.Tools(tools...), err
}

// ProcessRequest is for a set that adds something to the requests of the model.
func (s *guardedSet) ProcessRequest(ctx agent.Context, req *model.LLMRequest) error {
	if r, ok := s.Toolset.(requester); ok {
		return r.ProcessRequest(ctx, req)
	}
	return nil
}

type guarded struct {
	declared
	run   func(agent.Context, any) (map[string]any, error)
	guard *Guard
}

// ProcessRequest has the guarded tool called instead of the one in it.
func (t *guarded) ProcessRequest(ctx agent.Context, req *model.LLMRequest) error {
	r, ok := t.declared.(requester)
	if !ok {
		return toolutils.PackTool(req, t)
	}
	err := r.ProcessRequest(ctx, req)
	if req.Tools[t.Name()] == t.declared {
		req.Tools[t.Name()] = t
	}
	return err
}

// Run calls the tool. The call has actions of its own, into which one that was left behind may go on to write.
func (t *guarded) Run(ctx agent.Context, args any) (map[string]any, error) {
	wd, id, own := watchdog.FromContext(ctx), ctx.FunctionCallID(), *ctx.Actions()
	own.StateDelta, own.ArtifactDelta = maps.Clone(own.StateDelta), maps.Clone(own.ArtifactDelta)
	if ctx.ToolConfirmation() != nil {
		t.guard.ask(wd, id) // takes over the hold of a process that is gone
		if hold, ok := t.guard.kept.LoadAndDelete(wd.ID() + id); ok {
			hold.(*watchdog.Hold).Close()
		}
	}
	result, err := t.guard.call(ctx, t.Name(), func(work context.Context) (map[string]any, error) {
		delta := &agent.InvocationContextDelta{Context: &work}
		below := ctx.WithDelta(&agent.CommonContextDelta{InvocationContextDelta: delta})
		result, err := t.run(agent.NewToolContext(below, id, &own, ctx.ToolConfirmation()), args)
		if work.Err() == nil {
			*ctx.Actions() = own
		}
		return result, err
	})
	if _, asks := ctx.Actions().RequestedToolConfirmations[id]; asks {
		t.guard.ask(wd, id)
	}
	return result, err
}

// call makes one call of a tool, under a hold with a key of its own: a silent tool is no silence of the run. A call
// that its own limits have ended has an answer that says so, in the form that the SDK gives errors: the agent goes on.
func (g *Guard) call(
	ctx context.Context, tool string, work func(context.Context) (map[string]any, error),
) (map[string]any, error) {
	wd, key := watchdog.FromContext(ctx), fmt.Sprintf("%.64q %s", tool, rand.Text())
	hold, err := wd.Hold(context.WithoutCancel(ctx), key, watchdog.HoldLimit{Cap: watchdog.NoLimit}) // through the grace
	if err != nil {
		return nil, err
	}
	defer hold.Close()
	own, all := g.cfg.Tool[tool], g.cfg.Tools
	silence := cmp.Or(own.Idle, all.Idle)
	within, timer := idle.WithLimit(ctx, silence)
	defer timer.Close()
	out := bound.Do(within, bound.Call{
		Limit: cmp.Or(own.Limit, all.Limit), Grace: cmp.Or(own.Grace, all.Grace, DefaultGrace),
	}, work)
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
	return map[string]any{"error": fmt.Sprintf("The call of the tool %q was ended: %s. %s Look at what is there before "+
		"you call it again, and then with less to do or in another way.", tool, why, still)}, nil
}

// collecting makes a tool that streams answer at its end, as the SDK does in sessions that are not live.
func collecting(t streaming) func(agent.Context, any) (map[string]any, error) {
	return func(ctx agent.Context, args any) (map[string]any, error) {
		var all strings.Builder
		for piece, err := range t.RunStream(ctx, args) {
			if err != nil {
				return nil, err
			}
			idle.FromContext(ctx).Alive()
			all.WriteString(piece)
		}
		return map[string]any{"result": all.String()}, context.Cause(ctx)
	}
}
