package session

import (
	"context"
	"sync"
)

// A gate is open while something runs. It can be opened several times, and is then shut as often.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open
	times  int
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.times++; g.times == 1 {
		close(g.opened)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.times--; g.times == 0 {
		g.opened = make(chan struct{})
	}
}

// wait reports whether the gate is open, or is opened before ctx ends.
func (g *gate) wait(ctx context.Context) bool {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
		return true
	default:
	}
	select {
	case <-opened:
		return true
	case <-ctx.Done():
		return false
	}
}
