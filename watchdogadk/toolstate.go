package watchdogadk

import (
	"context"
	"iter"
	"maps"
	"sync"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/artifact"
	"google.golang.org/adk/v2/session"
)

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
