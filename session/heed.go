package session

import (
	"context"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
)

// maxHeeding is how many runs look into the store at once for why they were cancelled.
const maxHeeding = 16

// The times between tries to listen again.
const (
	shortestRetry = time.Second
	longestRetry  = 30 * time.Second
)

// hear passes on which sessions were cancelled, by listening where the store can be listened to and by polling where or while it cannot.
func (k *Keeper) hear(ctx context.Context, told chan<- string) {
	defer close(told)
	tell := func(runID string) {
		select {
		case told <- runID:
		case <-ctx.Done():
		}
	}
	p := &poller{k: k, tell: tell}
	if listener, ok := k.cfg.Store.(Listener); ok {
		p.listen(ctx, listener)
		return
	}
	p.poll(ctx, 0)
}

// A poller asks for what has ended since it last asked.
type poller struct {
	k    *Keeper
	tell func(runID string)
	mark string
}

// listen listens, and polls while it cannot.
func (p *poller) listen(ctx context.Context, listener Listener) {
	retry := shortestRetry
	p.ask(ctx)
	for ctx.Err() == nil {
		err := listener.Listen(ctx, func() {
			retry = shortestRetry
			p.ask(ctx) // for what was missed meanwhile
		}, p.tell)
		if ctx.Err() != nil {
			return
		}
		p.k.log().Warn("cancels of sessions cannot be listened to, polling for them", "error", err)
		p.poll(ctx, retry)
		retry = min(2*retry, longestRetry)
	}
}

// poll asks again and again, for a time or, where that is 0, until the context ends.
func (p *poller) poll(ctx context.Context, most time.Duration) {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	tick := time.NewTicker(p.k.cfg.Poll)
	defer tick.Stop()
	for {
		p.ask(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask asks once. What fails is asked again with the next, from the same mark; the outage is told where rows are written.
func (p *poller) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.k.cfg.RecordTimeout)
	defer cancel()
	ended, next, err := p.k.cfg.Store.Ended(ctx, p.mark)
	if err != nil {
		return
	}
	p.mark = next
	for _, runID := range ended {
		p.tell(runID)
	}
}

// obey has the runs that were cancelled look why.
func (k *Keeper) obey(ctx context.Context, told <-chan string) {
	var heeding sync.WaitGroup
	defer heeding.Wait()
	room := make(chan struct{}, maxHeeding)
	for runID := range told {
		if k.live(runID) == nil {
			continue // another host's
		}
		room <- struct{}{}
		heeding.Go(func() {
			defer func() { <-room }()
			k.heed(ctx, runID)
		})
	}
}

// heed has a run whose row says that it has ended, or is another attempt's, look into the store. One that was not cancelled is not kept any
// longer: another host has taken it over.
func (k *Keeper) heed(ctx context.Context, runID string) {
	r := k.live(runID)
	if r == nil {
		return
	}
	stop, err := r.run.Heed(ctx)
	if err != nil && r.run.Context().Err() == nil {
		k.log().Error("a run cannot look for its cancel", "run", runID, "error", err)
		return
	}
	if stop == nil && err == nil && k.lost(ctx, runID, r) {
		k.log().Warn("a run is not kept any longer, because another attempt at it was begun", "run", runID, "attempt", r.attempt)
	}
}

// lost drops a run whose row is another attempt's.
func (k *Keeper) lost(ctx context.Context, runID string, r *kept) bool {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	s, err := k.cfg.Store.Session(ctx, runID)
	if err != nil || s.Attempt == r.attempt {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept[runID] == r {
		delete(k.kept, runID)
	}
	return true
}

func (k *Keeper) live(runID string) *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[runID]
}

var _ watchdog.Keeper = (*Keeper)(nil)
