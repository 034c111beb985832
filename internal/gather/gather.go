// Package gather brings answers that are asked for at one moment together again: all at once when the last has come,
// and those that are there where one takes its time.
//
// It asks nobody, and its time is the machine's.
package gather

import (
	"sync"
	"time"
)

// A Group gathers answers. It is safe for concurrent use.
type Group[T any] struct {
	patience time.Duration
	then     func([]T)

	mu    sync.Mutex
	open  int // answers that have not come
	came  []T
	timed bool // those that came are handed on by a timer, if they wait for others until then
}

// New returns a group of so many answers. Then gets them, each once: when the last has come, on the goroutine that
// brought it, and when the first of those that came since has waited for so long, on another one.
func New[T any](answers int, patience time.Duration, then func([]T)) *Group[T] {
	return &Group[T]{open: answers, patience: patience, then: then}
}

// Add takes an answer.
func (g *Group[T]) Add(answer T) {
	g.mu.Lock()
	g.open--
	g.came = append(g.came, answer)
	last := g.open == 0
	if !last && !g.timed {
		g.timed = true
		time.AfterFunc(g.patience, g.pass)
	}
	g.mu.Unlock()
	if last {
		g.pass()
	}
}

// pass hands on those that came.
func (g *Group[T]) pass() {
	g.mu.Lock()
	came := g.came
	g.came, g.timed = nil, false
	g.mu.Unlock()
	if len(came) > 0 {
		g.then(came)
	}
}
