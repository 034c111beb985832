package byhand

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// Live returns the row of a run that a process runs, nil for any other. Where that process may have been killed, it
// waits until that is certain, and calls waits before.
func Live(
	ctx context.Context, db stores.Database, id string, waits func(host string, most time.Duration),
) (*session.Session, error) {
	r := &Run{db: db, id: id}
	switch err := r.readRow(ctx); {
	case errors.Is(err, session.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !r.live():
		return nil, nil
	}
	waits(r.row.Host, verdict.ObserveFor(r.promise()))
	dead, err := r.isDead(ctx)
	if err != nil || dead {
		return nil, err
	}
	return &r.row, nil
}

// isDead reports whether the process that runs the run is dead, by the rule of the sweepers. What cannot be decided
// counts as alive.
func (r *Run) isDead(ctx context.Context) (bool, error) {
	began, promise := time.Now(), r.promise()
	var looks verdict.Looks
	for {
		look := verdict.Look{Began: time.Since(began)}
		all, err := r.db.ObserveLeases(ctx, []string{r.lease.ID})
		if err != nil {
			return false, err
		}
		look.Ended = time.Since(began)
		lease := leaseOf(all, r.lease.ID)
		if lease.ID == "" || lease.Expired {
			return true, nil
		}
		look.Sure, look.Beat = !lease.Locked, lease.Beat
		if looks.Add(promise, look) {
			return true, nil
		}
		if lease.Beat != r.lease.Beat || look.Ended > verdict.ObserveFor(promise) {
			return false, nil
		}
		if err := pause(ctx, verdict.RenewAfter(promise)); err != nil {
			return false, err
		}
	}
}
