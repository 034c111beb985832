package byhand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

// A Change is what complete and resume did, as JSON. Fields are added and never renamed.
type Change struct {
	RunID string `json:"run_id"`
	// Outcome is complete or resumed, or already_complete or open if nothing was recorded.
	Outcome string `json:"outcome"`
	// StartedAt is the start of the run's window.
	StartedAt *time.Time `json:"session_started_at,omitempty"`
	// Before is why the window before ended: a stop code, complete, or failed.
	Before string `json:"before,omitempty"`
	// LiveOn is the host that runs it.
	LiveOn string `json:"live_on,omitempty"`
	// Says is the same as one line for people.
	Says string `json:"-"`
}

// Complete records that the run is complete, with why, which can be empty.
func (r *Run) Complete(ctx context.Context, why string) (did Change, err error) {
	did = Change{RunID: r.id, Outcome: "complete"}
	name := term.Plain(r.id)
	did.Says = fmt.Sprintf("run %s is recorded as complete", name)
	wd, err := r.attach(ctx, watchdog.New)
	switch {
	case errors.Is(err, watchdog.ErrComplete):
		did.Outcome, did.Says = "already_complete", fmt.Sprintf("run %s was complete already; nothing was recorded", name)
		if r.completeOrFailed() == string(session.ReasonFailed) {
			did.Says = fmt.Sprintf("run %s has ended already, and its command failed; nothing was recorded: watchdog resume "+
				"opens a fresh window, which can be completed", name)
		}
	case err != nil:
		return did, err
	default:
		started := wd.StartedAt()
		did.StartedAt = &started
		if r.live() {
			did.LiveOn = r.row.Host
			did.Says += fmt.Sprintf("; it ends on host %s, which runs it", term.Plain(r.row.Host))
		}
		if err := r.record(wd, why); err != nil {
			return did, err
		}
	}
	settled, err := r.finish(ctx)
	if err == nil && !settled {
		did.Says += "; its row says active until a sweeper has found its process dead"
	}
	return did, err
}

func (r *Run) record(wd *watchdog.Watchdog, why string) error {
	if why != "" {
		wd.Note(why)
	}
	err := wd.Complete()
	if stop := (*watchdog.Stop)(nil); errors.As(err, &stop) {
		err = fmt.Errorf("run %q was cancelled (%s), and so is not complete; nothing was recorded: watchdog resume opens a "+
			"fresh window, which can be completed", r.id, stop.Code)
	}
	return errors.Join(err, wd.Close())
}

// finish makes the row of a complete run say so. A row that is not active becomes so before: whoever dies in between
// leaves a row to which a sweeper does the rest.
func (r *Run) finish(ctx context.Context) (settled bool, err error) {
	before := r.row
	if before.Attempt == 0 || before.Status == session.Finished && len(before.Reason) > 0 {
		return true, nil
	}
	if before.Status != session.Active {
		err = r.activate(ctx, before)
	}
	if err == nil {
		settled, err = r.settle(ctx, event.Complete)
	}
	return settled, err
}

func (r *Run) activate(ctx context.Context, before session.Session) error {
	run, err := r.run()
	if err != nil {
		return err
	}
	_, _, err = r.db.Attach(ctx, session.Session{
		RunID: r.id, Parent: before.Parent, Threshold: before.Threshold, StartedAt: run.StartedAt, Host: before.Host,
		State: before.State,
	})
	return err
}

// Resume opens a fresh window for a run whose window is over.
func (r *Run) Resume(ctx context.Context) (did Change, err error) {
	if did, err = r.window(ctx); err != nil {
		return did, err
	}
	if err := r.refuseLive(did); err != nil {
		return did, err
	}
	if did.Before == "" {
		did.Says = fmt.Sprintf("run %s was not cancelled: its window is open since %s, and its host goes on in it when it "+
			"attaches; nothing was recorded", term.Plain(r.id), did.StartedAt.Format(time.RFC3339))
		return did, nil
	}
	if err := r.leave(ctx, did.Before); err != nil {
		return did, err
	}
	wd, err := r.attach(ctx, watchdog.Resume)
	if err != nil {
		return did, err
	}
	started := wd.StartedAt()
	did.Outcome, did.StartedAt = "resumed", &started
	did.Says = fmt.Sprintf("run %s has a fresh window since %s (before: %s); nobody runs it until its host attaches",
		term.Plain(r.id), started.Format(time.RFC3339), term.Plain(did.Before))
	return did, wd.Close()
}

// window finds out how the window of the run stands.
func (r *Run) window(ctx context.Context) (did Change, err error) {
	did = Change{RunID: r.id, Outcome: "open"}
	wd, err := r.attach(ctx, watchdog.New)
	if errors.Is(err, watchdog.ErrComplete) {
		did.Before = r.completeOrFailed()
		return did, nil
	}
	if err != nil {
		return did, err
	}
	if code, fired := wd.Fired(); fired {
		did.Before = string(code)
	}
	started := wd.StartedAt()
	did.StartedAt = &started
	return did, wd.Close()
}

// completeOrFailed is why the window of a run ended whose host said that it is complete.
func (r *Run) completeOrFailed() string {
	row := &r.row
	if row.Attempt == 0 {
		row = nil
	}
	if told := story.Of(story.Record{RunID: r.id, Events: r.events, Row: row}, time.Now()); told.State == story.Failed {
		return string(session.ReasonFailed)
	}
	return record.CompleteReason
}

// refuseLive returns an error for a run that a host runs.
func (r *Run) refuseLive(did Change) error {
	switch {
	case !r.live():
		return nil
	case did.Before == "":
		return fmt.Errorf("run %q is live: host %q has it (attempt %d); there is nothing to resume",
			r.id, r.row.Host, r.row.Attempt)
	default:
		return fmt.Errorf("run %q has ended (%s), and host %q has not written that down yet (attempt %d): try again, or "+
			"have a sweeper find out whether that host is dead", r.id, did.Before, r.row.Host, r.row.Attempt)
	}
}

// leave has no row be active of a window that is over: its process died before it wrote that down.
func (r *Run) leave(ctx context.Context, before string) error {
	if r.row.Status != session.Active {
		return nil
	}
	kind := event.Cancel
	if before == record.CompleteReason || before == string(session.ReasonFailed) {
		kind = event.Complete
	}
	settled, err := r.settle(ctx, kind)
	if err == nil && !settled {
		err = fmt.Errorf("run %q has ended (%s), and its row is still active: try again when a sweeper has looked at it",
			r.id, before)
	}
	return err
}
