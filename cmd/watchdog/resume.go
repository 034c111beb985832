package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

type resumeCmd struct {
	RunID string `arg:"" name:"run" help:"The run's ID."`
}

// Help is the end of the command's help.
func (resumeCmd) Help() string {
	return `Opens a fresh window for a run that was cancelled or is complete, so that its
host can go on with it. It starts nothing: the run's row stays as it is, and its
host makes it active when it attaches, with New or Resume. The wall clock of the
fresh window counts from this command on. A run whose window is open has nothing
to resume, and one that a host still runs is an error that says which host.

With --json what was done is an object with run_id, outcome (resumed or open),
session_started_at and before, why the window before ended.

Examples:
  watchdog resume --store sqlite:state/sessions.db job-42
  watchdog why job-42 && watchdog resume job-42`
}

// Run opens a fresh window.
func (c resumeCmd) Run(ctx context.Context, p Program, common *Common, model *kong.Application) error {
	return changed(ctx, common, model, c.RunID, func(r *byHand) error {
		did, line, err := r.resume(ctx)
		if err != nil {
			return err
		}
		return did.tell(p, common, line)
	})
}

func (r *byHand) resume(ctx context.Context) (did changedRun, line string, err error) {
	did, err = r.window(ctx)
	if err != nil {
		return did, "", err
	}
	if err := r.refuseLive(did); err != nil {
		return did, "", err
	}
	if did.Before == "" {
		return did, fmt.Sprintf("run %s was not cancelled: its window is open since %s, and its host goes on in it when it "+
			"attaches; nothing was recorded", term.Plain(r.id), did.StartedAt.Format(time.RFC3339)), nil
	}
	if err := r.leave(ctx, did.Before); err != nil {
		return did, "", err
	}
	wd, err := r.attach(ctx, watchdog.Resume)
	if err != nil {
		return did, "", err
	}
	started := wd.StartedAt()
	did.Outcome, did.StartedAt = "resumed", &started
	return did, fmt.Sprintf("run %s has a fresh window since %s (before: %s); nobody runs it until its host attaches",
		term.Plain(r.id), started.Format(time.RFC3339), term.Plain(did.Before)), wd.Close()
}

// window finds out how the window of the run stands.
func (r *byHand) window(ctx context.Context) (did changedRun, err error) {
	did = changedRun{RunID: r.id, Outcome: "open"}
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
func (r *byHand) completeOrFailed() string {
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
func (r *byHand) refuseLive(did changedRun) error {
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
func (r *byHand) leave(ctx context.Context, before string) error {
	if r.row.Status != session.Active {
		return nil
	}
	kind := watchdog.EventCancel
	if before == record.CompleteReason || before == string(session.ReasonFailed) {
		kind = watchdog.EventComplete
	}
	settled, err := r.settle(ctx, kind)
	if err == nil && !settled {
		err = fmt.Errorf("run %q has ended (%s), and its row is still active: try again when a sweeper has looked at it",
			r.id, before)
	}
	return err
}
