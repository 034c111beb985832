package watchdogadk

import (
	"context"
	"iter"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/artifact"
	"google.golang.org/adk/v2/session"
)

// A call is what one call of a tool does to its context. It is merged into the context on the runner's goroutine when
// the tool has returned, and dropped with a tool that was abandoned: that may write into it for as long as it runs.
type call struct {
	outer   agent.Context
	actions session.EventActions
	state   callState
	done    atomic.Bool
}

func newCall(outer agent.Context) *call {
	c := &call{outer: outer, actions: copiedActions(outer.Actions())}
	c.state.actions = &c.actions
	return c
}

// returned says that the tool writes no more.
func (c *call) returned() { c.done.Store(true) }

// merge puts what the tool did into its real context, if it has returned. It writes nothing if the tool did nothing,
// because a streaming tool of a live session goes on while the SDK reads its actions.
func (c *call) merge() {
	if !c.done.Load() {
		return
	}
	c.state.apply(c.outer)
	if outer := c.outer.Actions(); outer != nil && !reflect.DeepEqual(outer, &c.actions) {
		*outer = copiedActions(&c.actions)
	}
}

// copiedActions are not nil, and neither are their maps. Values in the maps are shared.
func copiedActions(from *session.EventActions) (own session.EventActions) {
	if from != nil {
		own = *from
	}
	own.StateDelta, own.ArtifactDelta = orEmpty(own.StateDelta), orEmpty(own.ArtifactDelta)
	own.RequestedToolConfirmations = maps.Clone(own.RequestedToolConfirmations)
	return own
}

func orEmpty[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return map[string]V{}
	}
	return maps.Clone(m)
}

// context returns the tool's context, which ends with work and has the actions of the call.
//
// A tool's context of the SDK says no to WithContext, but its WithDelta gives the context below it, of which another
// tool's context can be made. That is embedded, and not the outer one, because it makes the contexts that are derived
// from it (WithAgentCancel, WithDelta) end with work and have the call's actions, too.
func (c *call) context(work context.Context) agent.Context {
	made := &struct { // all at once
		toolContext
		artifacts callArtifacts
		common    agent.CommonContextDelta
		delta     agent.InvocationContextDelta
	}{}
	own := &made.toolContext
	own.Context, own.work, own.call = c.outer, work, c
	made.delta.Context, made.common.InvocationContextDelta = &own.work, &made.delta
	below := c.outer.WithDelta(&made.common)
	if below == nil { // a context that is none of the SDK's
		own.artifacts = c.outer.Artifacts()
		return own
	}
	own.Context = agent.NewToolContext(below, c.outer.FunctionCallID(), &c.actions, c.outer.ToolConfirmation())
	if b, ok := below.(interface {
		InvocationContext() agent.InvocationContext
	}); ok {
		made.artifacts = callArtifacts{Artifacts: b.InvocationContext().Artifacts(), state: &c.state}
		own.artifacts = &made.artifacts
		return own
	}
	own.artifacts = c.outer.Artifacts()
	return own
}

// A toolContext is the context of one call of a tool.
type toolContext struct {
	agent.Context
	work      context.Context
	call      *call
	artifacts agent.Artifacts
}

func (c *toolContext) Done() <-chan struct{}       { return c.work.Done() }
func (c *toolContext) Err() error                  { return c.work.Err() }
func (c *toolContext) Deadline() (time.Time, bool) { return c.work.Deadline() }
func (c *toolContext) Value(key any) any           { return c.work.Value(key) }

func (c *toolContext) Actions() *session.EventActions { return &c.call.actions }
func (c *toolContext) State() session.State           { return c.call.state.over(c.Context) }
func (c *toolContext) Artifacts() agent.Artifacts     { return c.artifacts }

func (c *toolContext) WithAgentCancel() (agent.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(c.work)
	return c.call.context(work), cancel
}

// A callState has the changes that a call of a tool makes to the state of its session. The SDK writes each at once,
// also into the session, where that of an abandoned tool would stay.
type callState struct {
	mu      sync.Mutex
	actions *session.EventActions
	set     map[string]any // nil without changes
}

// apply makes the changes in the state of ctx.
func (s *callState) apply(ctx agent.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.set) == 0 {
		return
	}
	state := ctx.State()
	for key, value := range s.set {
		_ = state.Set(key, value) // it fails only without a session, as it did for the tool
	}
}

// over returns the state of ctx, with the changes.
func (s *callState) over(ctx agent.Context) session.State { return &stateView{s, ctx.State()} }

// A stateView is the state that a tool sees.
type stateView struct {
	call *callState
	bare session.State
}

func (v *stateView) Get(key string) (any, error) {
	v.call.mu.Lock()
	defer v.call.mu.Unlock()
	return v.bare.Get(key) // looks into the call's actions first
}

func (v *stateView) Set(key string, value any) error {
	v.call.mu.Lock()
	defer v.call.mu.Unlock()
	if v.call.set == nil {
		v.call.set = map[string]any{}
	}
	v.call.actions.StateDelta[key], v.call.set[key] = value, value
	return nil
}

func (v *stateView) All() iter.Seq2[string, any] {
	v.call.mu.Lock()
	set := maps.Clone(v.call.set)
	v.call.mu.Unlock()
	return func(yield func(string, any) bool) {
		for key, value := range v.bare.All() {
			if _, changed := set[key]; !changed && !yield(key, value) {
				return
			}
		}
		for key, value := range set {
			if !yield(key, value) {
				return
			}
		}
	}
}

// callArtifacts notes the versions of what a call saves. What is saved stays, also by a tool that was abandoned.
type callArtifacts struct {
	agent.Artifacts
	state *callState
}

func (a *callArtifacts) Save(ctx context.Context, name string, data *genai.Part) (*artifact.SaveResponse, error) {
	resp, err := a.Artifacts.Save(ctx, name, data)
	if err != nil {
		return resp, err
	}
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	a.state.actions.ArtifactDelta[name] = resp.Version
	return resp, nil
}
