// Package byhand changes a run as a person says: it is complete, or goes on in a fresh window. What it needs is in the
// store.
//
// It starts no command, and ends none but through the store.
package byhand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// A Run is a run that a person changes, with what the store has of it.
type Run struct {
	db     stores.Database
	id     string
	row    session.Session // without an Attempt if there is none
	events []watchdog.Event
	lease  session.Lease // of the row, if it lives
}

// Find finds a run in a store.
func Find(ctx context.Context, db stores.Database, id string) (*Run, error) {
	found, err := stores.Record(ctx, db, id)
	switch {
	case err != nil:
		return nil, err
	case found.Row == nil && len(found.Events) == 0:
		return nil, fmt.Errorf("there is no run %q in the store; watchdog sessions lists those that there are", id)
	}
	r := &Run{db: db, id: id, events: found.Events}
	if found.Row == nil {
		return r, nil
	}
	r.row = *found.Row
	return r, r.readLease(ctx)
}

func (r *Run) readRow(ctx context.Context) (err error) {
	if r.row, err = r.db.Session(ctx, r.id); err != nil {
		return err
	}
	return r.readLease(ctx)
}

func (r *Run) readLease(ctx context.Context) error {
	if r.row.Lease == "" {
		return nil
	}
	all, err := r.db.ObserveLeases(ctx, nil)
	if lease := leaseOf(all, r.row.Lease); !lease.Expired {
		r.lease = lease
	}
	return err
}

// live reports whether a process says that it runs the run.
func (r *Run) live() bool { return r.row.Status == session.Active && r.lease.ID != "" }

func (r *Run) promise() time.Duration { return max(r.lease.Promise, session.ShortestPromise) }

// run is the run as its host would name it: with the start that is in its row, or in its last event.
func (r *Run) run() (watchdog.Run, error) {
	run := watchdog.Run{ID: r.id, Parent: r.row.Parent, StartedAt: r.row.StartedAt}
	for _, e := range slices.Backward(r.events) {
		var named record.Window
		_ = json.Unmarshal(e.Payload, &named) // of another writer it may be anything
		if named.Window != "" {
			return run, fmt.Errorf("run %q is a command, or a layer of run %q: it begins anew each time and cannot be resumed "+
				"or completed; name the run around it", r.id, named.Parent)
		}
		if run.StartedAt.IsZero() {
			run.StartedAt, run.Parent = time.Time(named.SessionStartedAt), named.Parent
		}
	}
	if run.StartedAt.IsZero() {
		return run, fmt.Errorf("no event of run %q says when it began, and it has no row among the sessions", r.id)
	}
	return run, nil
}

// attach attaches to the run, or resumes it, as a host does that guards nothing and keeps no row.
func (r *Run) attach(
	ctx context.Context, attach func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error),
) (*watchdog.Watchdog, error) {
	run, err := r.run()
	if err != nil {
		return nil, err
	}
	return attach(ctx, run, watchdog.Config{
		Store: r.db, Budget: watchdog.Budget{WallClock: watchdog.NoLimit}, PollOnly: true,
		Logger: slog.New(slog.DiscardHandler),
	})
}

// settle makes an active row say what the end of its window says, which is stored. It reports whether the row says so.
func (r *Run) settle(ctx context.Context, end string) (settled bool, err error) {
	const tries = 5
	id, err := r.endID(ctx, end)
	if err != nil {
		return false, err
	}
	for range tries {
		if err = r.readRow(ctx); err != nil || r.row.Status != session.Active {
			return err == nil, err
		}
		outcome, err := r.db.Claim(ctx, r.row, session.ClaimRequest{By: "watchdog " + end, For: time.Second, EndID: id})
		switch {
		case outcome == session.EndStored:
			return true, r.readRow(ctx)
		case err != nil && !errors.Is(err, session.ErrLocked):
			return false, err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return false, err
		}
	}
	return false, nil
}

// endID returns the ID of the last event that ended a window of the run so.
func (r *Run) endID(ctx context.Context, kind string) (id string, err error) {
	if r.events, err = r.db.Read(ctx, event.AggregateType, r.id); err != nil {
		return "", err
	}
	for _, e := range slices.Backward(r.events) {
		if e.Type == kind {
			return e.ID, nil
		}
	}
	return "", nil
}

func leaseOf(all []session.Lease, id string) (found session.Lease) {
	for _, lease := range all {
		if lease.ID == id {
			found = lease
		}
	}
	return found
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

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
