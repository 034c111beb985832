package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
)

// maxHeeding is how many runs look into the store at once for why they were cancelled.
const maxHeeding = 16

// whileListening is how much less often the store is asked while it is listened to: to find what was not told, and to keep short what is to be asked for when the
// connection is lost.
const whileListening = 30

// The times between tries to listen again.
const (
	shortestRetry = time.Second
	longestRetry  = 30 * time.Second
)

// hear asks runs whose sessions have ended to look why, by listening where the store can be listened to and by polling where or while it cannot.
func (k *Keeper) hear(ctx context.Context) {
	p := &poller{k: k, ready: make(chan struct{}, 1)}
	var listening sync.WaitGroup
	defer listening.Wait()
	if listener, ok := k.cfg.Store.(Listener); ok {
		listening.Go(func() { p.listen(ctx, listener) })
	}
	p.poll(ctx)
}

// A poller asks the store for what has ended since it was last asked.
type poller struct {
	k         *Keeper
	mark      string
	listening atomic.Bool
	ready     chan struct{} // says that listening has begun; has room for one
}

// poll asks again and again until the context ends.
func (p *poller) poll(ctx context.Context) {
	tick := time.NewTicker(p.k.cfg.Poll)
	defer tick.Stop()
	for left := 0; ; left-- {
		if left <= 0 || !p.listening.Load() {
			p.ask(ctx)
			left = whileListening
		}
		select {
		case <-p.ready:
			left = 0 // what ended before that is not told
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask asks once. What fails is asked again with the next, from the same mark.
func (p *poller) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.k.cfg.RecordTimeout)
	defer cancel()
	ended, next, err := p.k.cfg.Store.Ended(ctx, p.mark)
	if err != nil {
		return // where rows cannot be written either, that is told
	}
	if p.mark == "" {
		p.k.doubt()
	}
	p.mark = next
	p.k.ask(ended...)
}

// listen listens, again and again until the context ends.
func (p *poller) listen(ctx context.Context, listener Listener) {
	deaf, retry := false, shortestRetry
	for {
		err := listener.Listen(ctx, func() {
			p.listening.Store(true)
			signal(p.ready)
			if deaf {
				p.k.log().Info("cancels of sessions are listened to again")
			}
			deaf, retry = false, shortestRetry
		}, func(runID string) { p.k.ask(runID) })
		p.listening.Store(false)
		if ctx.Err() == nil && !deaf {
			p.k.log().Warn("cancels of sessions cannot be listened to, polling for them", "error", err)
			deaf = true
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return
		}
		retry = min(2*retry, longestRetry)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// doubt has the next look ask of every row whether it is still its run's: nobody listened so far.
func (k *Keeper) doubt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.kept {
		r.unsure = true
	}
}

// ask has runs look for their cancels, as far as they are this process's.
func (k *Keeper) ask(runIDs ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, runID := range runIDs {
		k.asked[runID] = true
		signal(k.wake)
	}
}

// obey has the runs look that were asked, and those again that could not.
func (k *Keeper) obey(ctx context.Context) {
	var heeding sync.WaitGroup
	defer heeding.Wait()
	room := make(chan struct{}, maxHeeding)
	again := time.NewTicker(k.cfg.Pace)
	defer again.Stop()
	for {
		for _, r := range k.take() {
			room <- struct{}{}
			heeding.Go(func() {
				defer func() { <-room }()
				k.heed(ctx, r)
			})
		}
		select {
		case <-k.wake:
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// take returns the runs that were asked.
func (k *Keeper) take() (all []*kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for runID := range k.asked {
		if r := k.kept[runID]; r != nil {
			all = append(all, r)
		}
	}
	clear(k.asked)
	return all
}

// heed has a run whose row says that it has ended, or is another attempt's, look into the store. One that was not cancelled is not kept any
// longer if another host has taken it over.
func (k *Keeper) heed(ctx context.Context, r *kept) {
	stop, err := r.run.Sync(ctx)
	if stop == nil && err == nil {
		err = k.yield(ctx, r)
	}
	if r.run.Context().Err() != nil {
		err = nil // the next look writes how it ended
	}
	k.heeded(ctx, r, err)
}

// yield drops a run whose row is another attempt's.
func (k *Keeper) yield(ctx context.Context, r *kept) error {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	s, err := k.cfg.Store.Session(ctx, r.run.ID())
	if err == nil && s.Attempt != r.attempt {
		k.drop(r.run.ID(), r.attempt)
		k.log().Warn("a run is not kept any longer, because another attempt at it was begun", "run", r.run.ID(), "attempt", r.attempt)
	}
	return err
}

// heeded notes that a run has looked. One that could not looks again, unless what is stored is at fault; the log tells of the first time.
func (k *Keeper) heeded(ctx context.Context, r *kept, err error) {
	k.mu.Lock()
	was := r.failing
	r.failing = err != nil
	if err != nil && !lasting(err) {
		k.asked[r.run.ID()] = true
	}
	k.mu.Unlock()
	if err != nil && !was && ctx.Err() == nil {
		k.log().Error("a run cannot look for its cancel", "run", r.run.ID(), "error", err)
	}
}

// lasting reports whether an error is of what is stored, and not of the store.
func lasting(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnreadable) || errors.Is(err, watchdog.ErrUnreadableEvent)
}
