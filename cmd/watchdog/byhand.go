package main

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/byhand"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
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
func (c completeCmd) Run(ctx context.Context, p Program, common *Common) error {
	return p.change(ctx, common, c.RunID, func(r *byhand.Run) (byhand.Change, error) {
		return r.Complete(ctx, c.Reason)
	})
}

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
func (c resumeCmd) Run(ctx context.Context, p Program, common *Common) error {
	return p.change(ctx, common, c.RunID, func(r *byhand.Run) (byhand.Change, error) { return r.Resume(ctx) })
}

// change opens the store to write to it, changes a run in it, and says what was done. It first looks for the run
// without the right to write, so that a store that has none is not made, nor changed.
func (p Program) change(
	ctx context.Context, common *Common, id string,
	change func(*byhand.Run) (byhand.Change, error),
) error {
	if err := p.withStore(ctx, common, stores.Reading, func(db stores.Database) error {
		_, err := byhand.Find(ctx, db, id)
		return err
	}); err != nil {
		return err
	}
	return p.withStore(ctx, common, stores.Writing, func(db stores.Database) error {
		r, err := byhand.Find(ctx, db, id)
		if err != nil {
			return err
		}
		did, err := change(r)
		switch {
		case err != nil:
			return err
		case common.JSON:
			return term.PrintJSON(p.Stdout, did)
		}
		_, err = fmt.Fprintln(p.Stdout, did.Says)
		return err
	})
}
