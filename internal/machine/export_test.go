package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Trip is the run's end that is being recorded, nil if there is none.
func (n *Node) Trip() *Trip { return n.trip }

// Worked is what the wall clock shows at an instant of the window: the real time without the pauses.
func (n *Node) Worked(at time.Duration) time.Duration { return at - verdict.Paused(n.seen, at) }

// Left is what is left of the wall clock, with the reserve.
func (n *Node) Left(at time.Duration) time.Duration { return verdict.Left(*n.Limits, n.seen, at) }

// Budget is the length of the wall clock, with its extensions.
func (n *Node) Budget() time.Duration { return verdict.Sum(n.Limits.WallClock, n.seen.Extended) }

// A Line is a queue of runs, which are known by their numbers.
type Line struct {
	queue queue[int]
	runs  []due[int]
}

// NewLine returns one for so many runs, none of which is due.
func NewLine(runs int) *Line {
	l := &Line{runs: make([]due[int], runs)}
	for i := range l.runs {
		l.runs[i].of = i
	}
	return l
}

// First is when the first run is due.
func (l *Line) First() time.Duration { return l.queue.first() }

// Set makes a run due then.
func (l *Line) Set(run int, at time.Duration) { l.queue.set(&l.runs[run], at) }

// Remove makes a run not due.
func (l *Line) Remove(run int) { l.queue.remove(&l.runs[run]) }

// Take removes the first run if it is due by now, and returns it, or -1.
func (l *Line) Take(now time.Duration) (run int) {
	if d := l.queue.take(now); d != nil {
		return d.of
	}
	return -1
}

// Kept is how many runs the memory of the queue still refers to.
func (l *Line) Kept() (n int) {
	for _, one := range l.queue.all[:cap(l.queue.all)] {
		if one != nil {
			n++
		}
	}
	return n
}
