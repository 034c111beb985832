package watchdogadk

import (
	"context"
	"sync"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/plugin"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// Invocations returns a plugin that does what [Guard.Plugin] does and has each invocation of the runner, from a message
// to its answer, be a run of its own: the one that begin returns. So nobody is silent while a person thinks, and a turn
// that hangs ends without the conversation. It is for a host that does not call the runner itself, such as one with a
// launcher of the SDK.
//
// The run guards the calls of tools and models that this guard has wrapped, as their outermost wrapper: it knows them
// by the SDK's context. A plugin cannot change that context. What is not wrapped has the one that the host gave the
// launcher, and the run does not end it.
//
// Begin is called at the begin of each invocation, with its context. The plugin closes what it returns at the end, and
// does not complete it. An error ends the invocation; nil without one leaves the invocation in the run of its context.
// A layer of a run around all of them counts in the limits of both. An invocation that a person's answer continues has
// the ID of the one that asked: a run in a store needs another ID, or its clock goes on from the question.
func (g *Guard) Invocations(begin func(agent.InvocationContext) (*watchdog.Watchdog, error)) (*plugin.Plugin, error) {
	return g.plugin(func(ctx agent.InvocationContext) (*genai.Content, error) {
		wd, err := begin(ctx)
		if err == nil && wd != nil && !g.enter(ctx, wd) {
			err = wd.Close()
		}
		return nil, err
	}, func(ctx agent.InvocationContext) {
		if err := g.leave(ctx).Close(); err != nil {
			g.log(ctx).Error("what ended a run is not recorded", "invocation", ctx.InvocationID(), "error", err)
		}
	})
}

// invocations are those under way that are runs of their own, by their IDs.
type invocations struct {
	mu   sync.Mutex
	byID map[string]*invocation
}

// An invocation is a run. Two answers of a person at the same time can continue one: it ends with the last of them.
type invocation struct {
	run, outer *watchdog.Watchdog // outer is the run of the runner's context, nil if there is none
	parts      map[agent.InvocationContext]bool
}

// enter reports whether wd is now the run of the invocation. If not, it has one.
func (i *invocations) enter(ctx agent.InvocationContext, wd *watchdog.Watchdog) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	known := i.byID[ctx.InvocationID()]
	if known != nil {
		known.parts[ctx] = true
		return false
	}
	i.byID[ctx.InvocationID()] = &invocation{
		run: wd, outer: watchdog.FromContext(ctx), parts: map[agent.InvocationContext]bool{ctx: true},
	}
	return true
}

// leave returns the run if it ends now, nil otherwise.
func (i *invocations) leave(ctx agent.InvocationContext) *watchdog.Watchdog {
	i.mu.Lock()
	defer i.mu.Unlock()
	known := i.byID[ctx.InvocationID()]
	if known == nil || !known.parts[ctx] {
		return nil
	}
	if delete(known.parts, ctx); len(known.parts) > 0 {
		return nil
	}
	delete(i.byID, ctx.InvocationID())
	return known.run
}

// run returns the run that work in ctx belongs to, nil if there is none.
func (i *invocations) run(ctx context.Context) *watchdog.Watchdog {
	wd := watchdog.FromContext(ctx)
	named, ok := ctx.(interface{ InvocationID() string })
	if !ok {
		return wd
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if known := i.byID[named.InvocationID()]; known != nil && known.outer == wd { // else a layer inside the run
		return known.run
	}
	return wd
}

// within returns ctx as a context of the run that work in it belongs to.
func (i *invocations) within(ctx context.Context) context.Context {
	wd := i.run(ctx)
	if wd == watchdog.FromContext(ctx) {
		return ctx
	}
	return handle.Of(wd.Context()).Within(ctx)
}
