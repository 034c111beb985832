package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/handle"
)

// maxSyncs is how many runs read the store at once for why they were cancelled.
const maxSyncs = 16

// A syncer has runs read the store for why they were cancelled, as the roster requests it.
type syncer struct {
	roster *roster
	rows   *rowBuilder
	leases *leaseKeeper
}

// loop syncs the requested runs, and at every pace those whose sync failed, until ctx ends.
func (s *syncer) loop(ctx context.Context) {
	var syncing sync.WaitGroup
	defer syncing.Wait()
	room := make(chan struct{}, maxSyncs)
	again := time.NewTicker(s.roster.cfg.Pace)
	defer again.Stop()
	for {
		for _, r := range s.roster.takeRequested() {
			room <- struct{}{}
			syncing.Go(func() {
				defer func() { <-room }()
				s.sync(ctx, r)
			})
		}
		select {
		case <-s.roster.requested:
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// sync has a run read its events for a cancel, because its row says that it has ended, is another attempt's, or is
// missing. If there is no cancel, the row decides.
func (s *syncer) sync(ctx context.Context, r *keptRun) {
	stop, err := r.run.Sync(ctx)
	if stop == nil && err == nil {
		err = s.heedRow(ctx, r)
	}
	if r.run.Context().Err() != nil {
		err = nil // the next flush writes how it ended
	}
	if first := s.roster.requestAgain(r, err); first && ctx.Err() == nil {
		s.roster.cfg.logger().Error("a run cannot read the store for its cancel", "run", r.run.ID(), "error", err)
	}
}

// heedRow ends a run that another process has taken over, and makes a row again that was lost.
func (s *syncer) heedRow(ctx context.Context, r *keptRun) error {
	ctx, cancel := context.WithTimeout(ctx, s.roster.cfg.RecordTimeout)
	defer cancel()
	row, err := s.roster.cfg.Store.Session(ctx, r.run.ID())
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && row.Attempt < r.attempt:
		return s.makeAgain(ctx, r)
	case err == nil && s.roster.heed(r, row):
		s.takenOver(r, row)
	}
	return err
}

// makeAgain makes the row of a live run that is not in the database: it was deleted, or lost with a server.
func (s *syncer) makeAgain(ctx context.Context, r *keptRun) error {
	threshold, err := s.roster.cfg.runThreshold(r.run.ID())
	if err != nil {
		return err
	}
	row := s.rows.attached(r.run, threshold)
	row.Attempt = r.attempt
	made, err := s.leases.attach(ctx, row)
	if err != nil {
		return err
	}
	if made.after.Attempt > r.attempt || s.roster.foreign(made.after.Lease) {
		s.takenOver(r, made.after)
		return nil
	}
	s.roster.madeAgain(r, made.at, threshold, row.Allowance)
	s.roster.cfg.logger().Warn("the row of a run was lost and is made again", "run", r.run.ID(), "attempt", r.attempt)
	return nil
}

// takenOver ends a run whose row is a later attempt's, and keeps it no longer.
func (s *syncer) takenOver(r *keptRun, by Session) {
	s.roster.drop(r)
	s.roster.cfg.logger().Warn("a run was taken over by another process, and ends here",
		"run", r.run.ID(), "attempt", r.attempt, "by_attempt", by.Attempt, "by_host", by.Host)
	handle.Of(r.run.Context()).End(&TakeoverError{RunID: by.RunID, Attempt: r.attempt, By: by.Attempt, Host: by.Host})
}
