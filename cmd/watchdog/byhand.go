package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// A byHand is a run that a person changes, with what the store has of it.
type byHand struct {
	db     database
	id     string
	row    session.Session // without an Attempt if there is none
	events []watchdog.Event
	lease  session.Lease // of the row, if it lives
}

// changed opens the store to write to it, and finds a run in it. It first looks for the run without the right to write,
// so that a store that has none is not made, nor changed.
func changed(
	ctx context.Context, common *Common, model *kong.Application, id string, change func(*byHand) error,
) error {
	outbox, err := common.hasWebhook(model)
	if err != nil {
		return err
	}
	reader, err := common.openReader(ctx)
	if err != nil {
		return err
	}
	_, err = findRun(ctx, reader, id)
	if err = errors.Join(err, reader.Close()); err != nil {
		return err
	}
	db, err := common.open(ctx, outbox)
	if err != nil {
		return err
	}
	r, err := findRun(ctx, db, id)
	if err == nil {
		err = change(r)
	}
	return errors.Join(err, db.Close())
}

// hasWebhook reports whether the configuration names one. Where nothing is configured, nothing is read.
func (c *Common) hasWebhook(model *kong.Application) (bool, error) {
	if c.Config == "" && !slices.ContainsFunc(os.Environ(), ofLimits(model)) {
		return false, nil
	}
	limits, err := c.limits(model)
	if err != nil {
		return false, err
	}
	return limits.Notify.URL != "", nil
}

// findRun reads what the store has of a run.
func findRun(ctx context.Context, db database, id string) (*byHand, error) {
	r := &byHand{db: db, id: id}
	var err error
	if r.events, err = db.Read(ctx, watchdog.AggregateType, id); err != nil {
		return nil, err
	}
	err = r.readRow(ctx)
	switch {
	case errors.Is(err, session.ErrNotFound) && len(r.events) == 0:
		return nil, fmt.Errorf("there is no run %q in the store; watchdog sessions lists those that there are", id)
	case err != nil && !errors.Is(err, session.ErrNotFound):
		return nil, err
	}
	return r, nil
}

func (r *byHand) readRow(ctx context.Context) (err error) {
	if r.row, err = r.db.Session(ctx, r.id); err != nil || r.row.Lease == "" {
		return err
	}
	all, err := r.db.ObserveLeases(ctx, nil)
	if lease := leaseOf(all, r.row.Lease); !lease.Expired {
		r.lease = lease
	}
	return err
}

// live reports whether a process says that it runs the run.
func (r *byHand) live() bool { return r.row.Status == session.Active && r.lease.ID != "" }

func (r *byHand) promise() time.Duration { return max(r.lease.Promise, session.ShortestPromise) }

// isDead reports whether the process that runs the run is dead, by the rule of the sweepers. What cannot be decided
// counts as alive.
func (r *byHand) isDead(ctx context.Context) (bool, error) {
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

// leaseOf returns the lease with the ID, or none.
func leaseOf(all []session.Lease, id string) (found session.Lease) {
	for _, lease := range all {
		if lease.ID == id {
			found = lease
		}
	}
	return found
}

// A named event is what the events of a run say about its windows.
type namedEvent struct {
	StartedAt time.Time `json:"session_started_at"`
	Parent    string    `json:"parent"`
	Window    string    `json:"window"`
}

// run is the run as its host would name it: with the start that is in its row, or in its last event.
func (r *byHand) run() (watchdog.Run, error) {
	run := watchdog.Run{ID: r.id, Parent: r.row.Parent, StartedAt: r.row.StartedAt}
	for _, e := range slices.Backward(r.events) {
		var named namedEvent
		_ = json.Unmarshal(e.Payload, &named) // of another writer it may be anything
		if named.Window != "" {
			return run, fmt.Errorf("run %q is a command, or a layer of run %q: it begins anew each time and cannot be resumed "+
				"or completed; name the run around it", r.id, named.Parent)
		}
		if run.StartedAt.IsZero() {
			run.StartedAt, run.Parent = named.StartedAt, named.Parent
		}
	}
	if run.StartedAt.IsZero() {
		return run, fmt.Errorf("no event of run %q says when it began, and it has no row among the sessions", r.id)
	}
	return run, nil
}

// attach attaches to the run, or resumes it, as a host does that guards nothing and keeps no row.
func (r *byHand) attach(
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
func (r *byHand) settle(ctx context.Context, end string) (settled bool, err error) {
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
func (r *byHand) endID(ctx context.Context, kind string) (id string, err error) {
	if r.events, err = r.db.Read(ctx, watchdog.AggregateType, r.id); err != nil {
		return "", err
	}
	for _, e := range r.events {
		if e.Type == kind {
			id = e.ID
		}
	}
	return id, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A changedRun is what complete and resume did, as JSON. Fields are added and never renamed.
type changedRun struct {
	RunID string `json:"run_id"`
	// Outcome is complete or resumed, or already_complete or open if nothing was recorded.
	Outcome string `json:"outcome"`
	// StartedAt is the start of the run's window.
	StartedAt *time.Time `json:"session_started_at,omitempty"`
	// Before is why the window before ended: a stop code, complete, or failed.
	Before string `json:"before,omitempty"`
	// LiveOn is the host that runs it.
	LiveOn string `json:"live_on,omitempty"`
}

// tell prints what was done, as one line or as JSON.
func (c changedRun) tell(p Program, common *Common, line string) error {
	if common.JSON {
		return term.PrintJSON(p.Stdout, c)
	}
	_, err := fmt.Fprintln(p.Stdout, line)
	return err
}
