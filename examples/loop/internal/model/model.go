package model

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A Request is the JSON that the agent posts.
type Request struct {
	// Turn is the turn of the conversation, from 1.
	Turn int `json:"turn"`
	// Approach is how often the agent has changed its approach.
	Approach int    `json:"approach"`
	Prompt   string `json:"prompt"`
}

// A Model is the handler of one conversation. Make one with [New].
type Model struct {
	character Character
	mu        sync.Mutex
	asked     map[int]int // requests by turn
}

// New returns a model with this character. It is safe for concurrent use.
func New(c Character) *Model { return &Model{character: c, asked: map[int]int{}} }

// ServeHTTP streams the reply to a [Request]. It always returns when the agent has gone.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req Request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, "the request is not JSON", http.StatusBadRequest)
		return
	}
	n := m.count(req.Turn)
	w.Header().Set("Content-Type", "text/event-stream")
	s := stream{ctx: r.Context(), w: w, flush: http.NewResponseController(w).Flush}
	switch m.character.fault(req, n) {
	case Mute:
		<-s.ctx.Done()
	case Stall:
		s.send(pace, turn(req.Turn)[:stalled])
		<-s.ctx.Done()
	case Trickle:
		s.send(slowPace, turn(req.Turn))
	case Heartbeat:
		s.beat()
	case Repeat:
		s.send(pace, loops[n%len(loops)])
	case Cycle:
		s.send(pace, cycle[(req.Turn-faultyTurn)%len(cycle)])
	case Batch:
		s.send(pace, batch)
	case Delegate:
		s.send(pace, delegation)
	default:
		s.send(pace, turn(req.Turn))
	}
}

// count returns the number of requests of the turn, this one included.
func (m *Model) count(turn int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[turn]++
	return m.asked[turn]
}

// A stream is the reply under way. It ends when the agent has gone.
type stream struct {
	ctx   context.Context
	w     http.ResponseWriter
	flush func() error
}

func (s stream) send(pace time.Duration, steps []step) {
	for _, step := range steps {
		if !s.chunk(pace, "event: %s\ndata: %s\n\n", step.kind, step.text) {
			return
		}
	}
}

func (s stream) beat() {
	for s.chunk(beat, ": alive\n\n") {
	}
}

// chunk sends one chunk after a while and reports whether the agent is still connected.
func (s stream) chunk(after time.Duration, format string, args ...any) bool {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-s.ctx.Done():
		return false
	case <-timer.C:
	}
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return false
	}
	return s.flush() == nil
}
