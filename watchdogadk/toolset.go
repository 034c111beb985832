package watchdogadk

import (
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
)

// Toolset returns the set with each of its tools guarded by [Guard.Tool], such as those of an MCP server. Listing the
// tools is not bounded: that is silence of the run, whose context the set has.
func (g *Guard) Toolset(set tool.Toolset) tool.Toolset {
	if _, ok := set.(*guardedSet); ok {
		return set
	}
	return &guardedSet{Toolset: set, guard: g}
}

// Toolsets returns each of the sets guarded by [Guard.Toolset].
func (g *Guard) Toolsets(sets ...tool.Toolset) []tool.Toolset {
	all := make([]tool.Toolset, len(sets))
	for i, set := range sets {
		all[i] = g.Toolset(set)
	}
	return all
}

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
