package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A due is when a run is to be looked at, in the tree's time, and its place in the queue, -1 for none.
type due struct {
	at    time.Duration
	index int
}

// A queue is the runs of a tree that are to be looked at, as a heap: the one that is due first stands at its top.
type queue struct {
	nodes []*Node
	one   [1]*Node // room for a session alone
}

func (q *queue) first() time.Duration {
	if len(q.nodes) == 0 {
		return verdict.Never
	}
	return q.nodes[0].due.at
}

// set has the run looked at then.
func (q *queue) set(n *Node, at time.Duration) {
	if n.due.index < 0 {
		if q.nodes == nil {
			q.nodes = q.one[:0]
		}
		n.due.index = len(q.nodes)
		q.nodes = append(q.nodes, n)
	}
	n.due.at = at
	q.down(n.due.index)
	q.up(n.due.index)
}

// take removes the first run if it is due at the instant, and returns it.
func (q *queue) take(now time.Duration) *Node {
	if q.first() > now {
		return nil
	}
	n := q.nodes[0]
	q.remove(n)
	return n
}

// remove does nothing for a run that is not in the queue.
func (q *queue) remove(n *Node) {
	at, end := n.due.index, len(q.nodes)-1
	if at < 0 {
		return
	}
	q.swap(at, end)
	q.nodes[end], q.nodes, n.due.index = nil, q.nodes[:end], -1
	if at < end {
		q.down(at)
		q.up(at)
	}
}

func (q *queue) up(at int) {
	for at > 0 {
		above := (at - 1) / 2
		if q.nodes[above].due.at <= q.nodes[at].due.at {
			return
		}
		q.swap(at, above)
		at = above
	}
}

func (q *queue) down(at int) {
	for {
		least := at
		for below := 2*at + 1; below <= 2*at+2 && below < len(q.nodes); below++ {
			if q.nodes[below].due.at < q.nodes[least].due.at {
				least = below
			}
		}
		if least == at {
			return
		}
		q.swap(at, least)
		at = least
	}
}

func (q *queue) swap(i, j int) {
	q.nodes[i], q.nodes[j] = q.nodes[j], q.nodes[i]
	q.nodes[i].due.index, q.nodes[j].due.index = i, j
}
