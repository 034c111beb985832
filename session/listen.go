package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// ticksPerPoll is how many ticks there are for one poll while the store is listened to. The poll finds cancels that no
// notification came for, and keeps the mark recent for when the connection is lost.
const ticksPerPoll = 30

// The waits between tries to listen again.
const (
	shortestRetry = time.Second
	longestRetry  = 30 * time.Second
)

// A poller asks the store what others have ended of the lease, and requests a sync of those runs.
type poller struct {
	roster    *roster
	told      []AttemptID // which the store can forget
	listening atomic.Bool
	ready     chan struct{} // has room for one: the store listens now
}

// watch polls the store until ctx ends, and listens to it, too, if the store is a [Listener].
func (p *poller) watch(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	if listener, ok := p.roster.cfg.Store.(Listener); ok {
		listening.Go(func() { p.listen(ctx, listener) })
	}
	p.run(ctx)
}

func (p *poller) run(ctx context.Context) {
	tick := time.NewTicker(p.roster.cfg.Poll)
	defer tick.Stop()
	for left := 0; ; left-- {
		if left <= 0 || !p.listening.Load() {
			left = ticksPerPoll
			if !p.poll(ctx) {
				left = 1 // what ended before it listened is found by nothing else
			}
		}
		select {
		case <-p.ready:
			left = 0 // what ended before is not notified
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// poll polls once, and reports whether the store answered. If it did not the next poll asks for the same. What it tells
// of a run is requested until it was read, and so the store need not tell it again. Without a lease there is nothing to
// ask: when one begins the rows of all runs are written, which finds those that have ended. An attempt ends once, so it
// does no harm if the store is to forget one of the lease before.
func (p *poller) poll(ctx context.Context) bool {
	l := p.roster.lease()
	if l == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, p.roster.cfg.RecordTimeout)
	defer cancel()
	ended, err := p.roster.cfg.Store.Ended(ctx, l.id, p.told)
	if err != nil {
		return false // flush logs an outage of the store
	}
	p.told = ended
	for _, a := range ended {
		p.roster.request(a.RunID)
	}
	return true
}

// listen listens, and listens again when the connection is lost, until ctx ends.
func (p *poller) listen(ctx context.Context, listener Listener) {
	lost, retry := false, shortestRetry
	for {
		err := listener.Listen(ctx, func() {
			p.listening.Store(true)
			wake(p.ready)
			if lost {
				p.roster.cfg.logger().Info("listening for cancelled sessions works again")
			}
			lost, retry = false, shortestRetry
		}, p.roster.request)
		p.listening.Store(false)
		if ctx.Err() == nil && !lost {
			p.roster.cfg.logger().Warn("cannot listen for cancelled sessions, polling for them", "error", err)
			lost = true
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return
		}
		retry = min(2*retry, longestRetry)
	}
}
