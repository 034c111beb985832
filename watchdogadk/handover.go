package watchdogadk

import (
	"sync"

	"google.golang.org/adk/v2/model"
)

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
