package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// maxSyncs is how many runs read the store at once for why they were cancelled.
const maxSyncs = 16

// requestSync has a run of this process look in the store for a cancel. Other runs are ignored: a listener is told of
// those of the whole fleet.
func (k *Keeper) requestSync(runID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs[runID] != nil || k.attaching[runID] > 0 {
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

// takeRequested returns the runs that are to be synced, and removes the requests. That of a run that this process still
// attaches to stays until it has.
func (k *Keeper) takeRequested() (all []*keptRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for runID := range k.toSync {
		r := k.runs[runID]
		if r == nil && k.attaching[runID] > 0 {
			continue
		}
		delete(k.toSync, runID)
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// sync has a run read its events for a cancel, because its row says that it has ended, is another attempt's, or is
// missing. If there is no cancel, the row decides.
func (k *Keeper) sync(ctx context.Context, r *keptRun) {
	stop, err := r.run.Sync(ctx)
	if stop == nil && err == nil {
		err = k.heedRow(ctx, r)
	}
	if r.run.Context().Err() != nil {
		err = nil // the next flush writes how it ended
	}
	k.finishSync(ctx, r, err)
}

// heedRow ends a run that another process has taken over, and makes a row again that was lost.
func (k *Keeper) heedRow(ctx context.Context, r *keptRun) error {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	s, err := k.cfg.Store.Session(ctx, r.run.ID())
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && s.Attempt < r.attempt:
		return k.makeAgain(ctx, r)
	case err == nil && k.kept(s.RunID) == r:
		k.heedAttempt(r, s)
	}
	return err
}

// heedAttempt ends a run whose row is a later attempt's, but not while this process attaches to it: the attempt may be
// that one. After a row was lost another process can have begun an attempt with the same number: then the one whose
// lease has the row runs on.
func (k *Keeper) heedAttempt(r *keptRun, s Session) {
	switch later, active := s.Attempt > r.attempt, s.Status == Active; {
	case later && k.isAttaching(s.RunID):
	case later, active && k.foreign(s.Lease):
		k.takenOver(r, s)
	case active:
		k.claimBack(r, s)
	}
}

// claimBack has the next flush write a row that is not in the lease.
func (k *Keeper) claimBack(r *keptRun, s Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil || k.held.id != s.Lease {
		k.recheck(r)
	}
}

// makeAgain makes the row of a live run that is not in the database: it was deleted, or lost with a server.
func (k *Keeper) makeAgain(ctx context.Context, r *keptRun) error {
	threshold, err := k.runThreshold(r.run.ID())
	if err != nil {
		return err
	}
	row := k.rowOf(r.run, threshold)
	row.Attempt = r.attempt
	_, after, made, err := k.attach(ctx, row)
	if err != nil {
		return err
	}
	if after.Attempt > r.attempt || k.foreign(after.Lease) {
		k.takenOver(r, after)
		return nil
	}
	k.mu.Lock()
	r.written, r.quiet, r.own, r.allowance = made.at, false, threshold, row.Allowance
	k.recheck(r)
	k.mu.Unlock()
	k.logger().Warn("the row of a run was lost and is made again", "run", r.run.ID(), "attempt", r.attempt)
	return nil
}

// takenOver ends a run whose row is a later attempt's, and keeps it no longer.
func (k *Keeper) takenOver(r *keptRun, s Session) {
	k.drop(r)
	k.logger().Warn("a run was taken over by another process, and ends here",
		"run", r.run.ID(), "attempt", r.attempt, "by_attempt", s.Attempt, "by_host", s.Host)
	handle.Of(r.run.Context()).End(&TakeoverError{RunID: s.RunID, Attempt: r.attempt, By: s.Attempt, Host: s.Host})
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
