package watchdog

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// Lock implements [lane.Run].
func (r *run) Lock() { r.tree.mu.Lock() }

// Unlock implements [lane.Run].
func (r *run) Unlock() { r.tree.mu.Unlock() }

// Node implements [lane.Run].
func (r *run) Node() *machine.Node { return &r.node }

// Values implements [lane.Run].
func (r *run) Values() context.Context { return context.WithoutCancel(r.inner) }

// Closed implements [lane.Run].
func (r *run) Closed() bool {
	for ; r != nil; r = r.outer {
		if r.record.Closed() {
			return true
		}
	}
	return false
}

// Owes implements [lane.Run].
func (r *run) Owes() bool { return r.account.Load().own().drawn().Uncovered() }

// Cover implements [lane.Run].
func (r *run) Cover() error {
	if r.Closed() {
		return nil
	}
	return r.account.Load().own().drawn().Cover(nil)
}

// retry appends again what is pending, unless that is being done. It holds up a poll only if there is no other
// goroutine, for what is left of its time-out since began.
func (r *run) retry(began time.Time) {
	if r.record.WantAgain() {
		k := work{record: []*lane.Recorder{&r.record}}
		k.do(r.tree, began)
	}
}

// catchUp tries again, as a poll does, what the stores did not take.
func (r *run) catchUp(began time.Time) {
	r.retry(began)
	r.tree.session[0].account.Load().own().coverAside()
}
