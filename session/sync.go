package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
)

// maxSyncs is how many runs read the store at once for why they were cancelled.
const maxSyncs = 16

// requestSync has runs of this process look in the store for a cancel. Other runs are ignored.
func (k *Keeper) requestSync(runIDs ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, runID := range runIDs {
		k.toSync[runID] = true
		wake(k.wake)
	}
}

// syncLoop syncs the requested runs, and at every pace those whose sync failed, until ctx ends.
func (k *Keeper) syncLoop(ctx context.Context) {
	var syncing sync.WaitGroup
	defer syncing.Wait()
	room := make(chan struct{}, maxSyncs)
	again := time.NewTicker(k.cfg.Pace)
	defer again.Stop()
	for {
		for _, r := range k.takeRequested() {
			room <- struct{}{}
			syncing.Go(func() {
				defer func() { <-room }()
				k.sync(ctx, r)
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

// takeRequested returns the runs that are to be synced, and clears the requests.
func (k *Keeper) takeRequested() (all []*keptRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for runID := range k.toSync {
		if r := k.runs[runID]; r != nil {
			all = append(all, r)
		}
	}
	clear(k.toSync)
	return all
}

// sync has a run read its events for a cancel, because its row says that it has ended, or is another attempt's. If
// there is no cancel, the run is dropped if another host has taken it over.
func (k *Keeper) sync(ctx context.Context, r *keptRun) {
	stop, err := r.run.Sync(ctx)
	if stop == nil && err == nil {
		err = k.dropReplaced(ctx, r)
	}
	if r.run.Context().Err() != nil {
		err = nil // the next flush writes how it ended
	}
	k.finishSync(ctx, r, err)
}

// dropReplaced drops a run whose row is another attempt's.
func (k *Keeper) dropReplaced(ctx context.Context, r *keptRun) error {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	s, err := k.cfg.Store.Session(ctx, r.run.ID())
	if err == nil && s.Attempt != r.attempt {
		k.drop(r.run.ID(), r.attempt)
		k.logger().Warn("a run is not kept any longer, because another attempt at it was begun",
			"run", r.run.ID(), "attempt", r.attempt)
	}
	return err
}

// finishSync notes the result of a sync. A sync that failed is requested again, unless the stored data is at fault. The
// first failure in a row is logged.
func (k *Keeper) finishSync(ctx context.Context, r *keptRun, err error) {
	k.mu.Lock()
	failed := r.syncFailed
	r.syncFailed = err != nil
	if err != nil && !permanent(err) {
		k.toSync[r.run.ID()] = true
	}
	k.mu.Unlock()
	if err != nil && !failed && ctx.Err() == nil {
		k.logger().Error("a run cannot read the store for its cancel", "run", r.run.ID(), "error", err)
	}
}

// permanent reports whether an error is about the stored data, not about the store.
func permanent(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnreadable) || errors.Is(err, watchdog.ErrUnreadableEvent)
}
