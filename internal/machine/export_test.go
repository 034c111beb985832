package machine

import "time"

// A Line is a queue of runs, which are known by their numbers.
type Line struct {
	queue queue
	nodes []Node
}

// NewLine returns one for so many runs, none of which is due.
func NewLine(runs int) *Line {
	l := &Line{nodes: make([]Node, runs)}
	for i := range l.nodes {
		l.nodes[i].Number, l.nodes[i].due.index = i, -1
	}
	return l
}

// First is when the first run is due.
func (l *Line) First() time.Duration { return l.queue.first() }

// Set makes a run due then.
func (l *Line) Set(run int, at time.Duration) { l.queue.set(&l.nodes[run], at) }

// Remove makes a run not due.
func (l *Line) Remove(run int) { l.queue.remove(&l.nodes[run]) }

// Take removes the first run if it is due by now, and returns it, or -1.
func (l *Line) Take(now time.Duration) (run int) {
	if n := l.queue.take(now); n != nil {
		return n.Number
	}
	return -1
}

// Kept is how many runs the memory of the queue still refers to.
func (l *Line) Kept() (n int) {
	for _, one := range l.queue.nodes[:cap(l.queue.nodes)] {
		if one != nil {
			n++
		}
	}
	return n
}
