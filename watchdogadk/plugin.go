package watchdogadk

import (
	"sync"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"

	"github.com/seed62658d38/watchdog"
)

// PluginName is the name of the plugin. A runner has one plugin of a name.
const PluginName = "watchdog"

// Plugin returns a plugin for a runner: each event, and the begin and end of each call of a tool, is a sign of life of
// the run; and each call of a model that is not wrapped by [Guard.Model] is admitted, counts, and has what the run asks
// of the model in its request, as with that. A call of a wrapped model is counted once.
//
// A plugin cannot end a call: what hangs ends by the run, which ends the contexts of the calls, and a call that ignores
// its context is never left. A tool that is silent for longer than the run's idle ends the run, unless it is wrapped by
// [Guard.Tool], which opens a hold. Put the plugin last, because an answer of a plugin before it keeps a call from the
// model that was admitted: then it stays charged with the most that it could use.
//
// Agents that are tools (agenttool) have a runner of their own without plugins: wrap their models.
func (g *Guard) Plugin() (*plugin.Plugin, error) {
	return g.plugin(func(ctx agent.InvocationContext) (*genai.Content, error) {
		g.run(ctx).Activity()
		return nil, nil
	}, func(agent.InvocationContext) {})
}

// plugin returns a plugin that calls begin before an invocation, and end when all of its calls have ended.
func (g *Guard) plugin(begin plugin.BeforeRunCallback, end func(agent.InvocationContext)) (*plugin.Plugin, error) {
	return plugin.New(plugin.Config{
		Name:              PluginName,
		BeforeRunCallback: begin,
		AfterRunCallback: func(ctx agent.InvocationContext) {
			g.endAll(ctx.InvocationID())
			end(ctx)
		},
		OnEventCallback:      g.onEvent,
		BeforeModelCallback:  g.beforeModel,
		AfterModelCallback:   g.afterModel,
		OnModelErrorCallback: g.onModelError,
		BeforeToolCallback:   g.beforeTool,
		AfterToolCallback:    g.afterTool,
	})
}

func (g *Guard) onEvent(ctx agent.InvocationContext, _ *session.Event) (*session.Event, error) {
	g.run(ctx).Activity()
	return nil, nil
}

// beforeTool is a sign of life. Rejected: to make the call of the tool in here, within its limits. An answer from here
// keeps the callbacks behind this one from being called, one of nil has the SDK call the tool once more, and a tool
// that streams does not come here.
func (g *Guard) beforeTool(ctx agent.Context, _ tool.Tool, _ map[string]any) (map[string]any, error) {
	g.run(ctx).Activity()
	return nil, nil
}

func (g *Guard) afterTool(ctx agent.Context, _ tool.Tool, _, _ map[string]any, _ error) (map[string]any, error) {
	g.run(ctx).Activity()
	return nil, nil
}

// A place is where calls of a model are made, one after the other.
type place struct{ invocation, branch, agent string }

func placeOf(ctx agent.Context) place {
	return place{ctx.InvocationID(), ctx.Branch(), ctx.AgentName()}
}

func (g *Guard) beforeModel(ctx agent.Context, req *model.LLMRequest) (*model.LLMResponse, error) {
	work := g.within(ctx)
	if watchdog.FromContext(work) == nil {
		return nil, nil
	}
	g.hear(work, ctx)
	p, err := g.admit(work, agentOf(ctx), req, nil)
	if err != nil {
		return nil, err
	}
	req.Contents, p.messages = said(req.Contents, p.messages), nil
	p.req, p.place = req, placeOf(ctx)
	g.keep(p).end(nil)
	return nil, nil
}

func (g *Guard) afterModel(ctx agent.Context, r *model.LLMResponse, err error) (*model.LLMResponse, error) {
	p := g.at(placeOf(ctx))
	if p == nil {
		return nil, nil
	}
	p.alive(r)
	switch {
	case err != nil:
		g.takeOver(p.req).end(err)
	case r != nil && !r.Partial:
		g.takeOver(p.req).end(failure(r))
	}
	return nil, nil
}

func (g *Guard) onModelError(_ agent.Context, req *model.LLMRequest, err error) (*model.LLMResponse, error) {
	g.takeOver(req).end(err)
	return nil, nil
}

// handedOver are the calls of models that the plugin has admitted: by their requests, by which a wrapped model takes
// one over, and by their places, at which the plugin finds what came back.
type handedOver struct {
	mu       sync.Mutex
	requests map[*model.LLMRequest]*planned
	places   map[place]*planned
}

// keep keeps a call, and returns the one before it at its place, of which the SDK told no end.
func (h *handedOver) keep(p *planned) (before *planned) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = h.places[p.place]
	h.drop(before)
	h.requests[p.req], h.places[p.place] = p, p
	return before
}

// at returns the call at a place, nil if there is none or a wrapped model has it.
func (h *handedOver) at(where place) *planned {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.places[where]
}

// takeOver returns the call of a request, which is the caller's from now on, or nil.
func (h *handedOver) takeOver(req *model.LLMRequest) *planned {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.requests[req]
	h.drop(p)
	return p
}

// endAll ends the calls of an invocation, of which the SDK told no end.
func (h *handedOver) endAll(invocation string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for where, p := range h.places {
		if where.invocation == invocation {
			h.drop(p)
			p.end(nil)
		}
	}
}

// drop forgets a call. The caller holds mu.
func (h *handedOver) drop(p *planned) {
	if p == nil {
		return
	}
	delete(h.requests, p.req)
	if h.places[p.place] == p {
		delete(h.places, p.place)
	}
}
