package session

import (
	"context"
	"sync"
)

// An endQueue writes how runs have ended at once: those that end at the same time in one statement.
type endQueue struct {
	ends *endWriter

	mu      sync.Mutex
	queued  []queuedEnd
	writing bool // a goroutine does
}

type queuedEnd struct {
	Ending
	tried chan struct{} // closed when it was tried to write it
}

// write writes an end, and returns when that was tried or ctx has ended.
func (q *endQueue) write(ctx context.Context, e Ending) {
	queued := queuedEnd{e, make(chan struct{})}
	if q.add(queued) {
		go q.writeAll(context.WithoutCancel(ctx))
	}
	select {
	case <-queued.tried:
	case <-ctx.Done():
	}
}

// add reports whether the caller has to start the goroutine that writes.
func (q *endQueue) add(e queuedEnd) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued = append(q.queued, e)
	first, q.writing = !q.writing, true
	return first
}

// writeAll writes ends until there are no more.
func (q *endQueue) writeAll(ctx context.Context) {
	for {
		all := q.take()
		if len(all) == 0 {
			return
		}
		ends := make([]Ending, len(all))
		for i, e := range all {
			ends[i] = e.Ending
		}
		_ = q.ends.write(ctx, ends) // the next flush tries again, and logs that the store fails
		for _, e := range all {
			close(e.tried)
		}
	}
}

func (q *endQueue) take() []queuedEnd {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.queued
	q.queued, q.writing = nil, len(all) > 0
	return all
}
