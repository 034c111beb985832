package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/session"
)

type completeCmd struct {
	RunID  string `arg:"" name:"run" help:"The run's ID."`
	Reason string `placeholder:"TEXT" help:"Why, for the event's note: at most 200 characters, nothing secret."`
}

// Help is the end of the command's help.
func (completeCmd) Help() string {
	return `Records that a run has done its work, as its host does with Complete. A complete
run is never cancelled, whoever attaches to it; a sweeper leaves it alone. If a
host still runs it, the run ends there. A run that is complete already is no
error, and one that was cancelled is: resume it first.

With --json what was done is an object with run_id, outcome (complete or
already_complete), session_started_at and live_on.

Examples:
  watchdog complete --store sqlite:state/sessions.db job-42
  watchdog complete job-42 --reason "merged by hand"`
}

// Run records that the run is complete.
func (c completeCmd) Run(ctx context.Context, p Program, common *Common, model *kong.Application) error {
	return changed(ctx, common, model, c.RunID, func(r *byHand) error {
		did, line, err := c.complete(ctx, r)
		if err != nil {
			return err
		}
		return did.tell(p, common, line)
	})
}

func (c completeCmd) complete(ctx context.Context, r *byHand) (did changedRun, line string, err error) {
	did = changedRun{RunID: r.id, Outcome: "complete"}
	name := term.Plain(r.id)
	line = fmt.Sprintf("run %s is recorded as complete", name)
	wd, err := r.attach(ctx, watchdog.New)
	switch {
	case errors.Is(err, watchdog.ErrComplete):
		did.Outcome, line = "already_complete", fmt.Sprintf("run %s was complete already; nothing was recorded", name)
		if r.completeOrFailed() == string(session.ReasonFailed) {
			line = fmt.Sprintf("run %s has ended already, and its command failed; nothing was recorded: watchdog resume opens "+
				"a fresh window, which can be completed", name)
		}
	case err != nil:
		return did, "", err
	default:
		started := wd.StartedAt()
		did.StartedAt = &started
		if r.live() {
			did.LiveOn = r.row.Host
			line += fmt.Sprintf("; it ends on host %s, which runs it", term.Plain(r.row.Host))
		}
		if err := c.record(wd, r.id); err != nil {
			return did, "", err
		}
	}
	settled, err := r.finish(ctx)
	if err == nil && !settled {
		line += "; its row says active until a sweeper has found its process dead"
	}
	return did, line, err
}

// record records that a run is complete which was attached to.
func (c completeCmd) record(wd *watchdog.Watchdog, id string) error {
	if c.Reason != "" {
		wd.Note(c.Reason)
	}
	err := wd.Complete()
	if stop := (*watchdog.Stop)(nil); errors.As(err, &stop) {
		err = fmt.Errorf("run %q was cancelled (%s), and so is not complete; nothing was recorded: watchdog resume opens a "+
			"fresh window, which can be completed", id, stop.Code)
	}
	return errors.Join(err, wd.Close())
}

// finish makes the row of a complete run say so. A row that is not active becomes so before: whoever dies in between
// leaves a row to which a sweeper does the rest.
func (r *byHand) finish(ctx context.Context) (settled bool, err error) {
	before := r.row
	if before.Attempt == 0 || before.Status == session.Finished && len(before.Reason) > 0 {
		return true, nil
	}
	if before.Status != session.Active {
		err = r.activate(ctx, before)
	}
	if err == nil {
		settled, err = r.settle(ctx, watchdog.EventComplete)
	}
	return settled, err
}

func (r *byHand) activate(ctx context.Context, before session.Session) error {
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
