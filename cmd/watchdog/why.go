package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

//nolint:lll // a tag cannot be broken
type whyCmd struct {
	Of string `arg:"" name:"run" help:"The ID of a run in the store, or a folder with artifacts of a stalled command: its root, a step's folder or its _stall."`
}

// Help is the long help.
func (whyCmd) Help() string {
	return `It says what the run was allowed, what it used, what was asked of it and when,
what ended it, what is left and how to go on. It writes nothing.

Examples:
  watchdog why --store sqlite:state/watchdog.db s-1
  watchdog why artifacts/build
  watchdog why --json s-1`
}

// Run tells what became of a run, or of a stalled command.
func (w whyCmd) Run(ctx context.Context, p Program, common *Common) error {
	found, err := findArtifacts(w.Of)
	switch {
	case err != nil && common.Store == "":
		return fmt.Errorf("%w; for a run in a database, %w", err, errNoStore)
	case err == nil:
		if common.Store != "" {
			p.say(fmt.Sprintf("%s is a folder with artifacts, and this is what they say; from another folder, the name is the "+
				"run's in the store", plain(w.Of)))
		}
		return tellArtifacts(p, common, found)
	}
	told, err := common.storyOf(ctx, w.Of)
	if err != nil {
		return err
	}
	return p.tell(common, told)
}

// tell prints a story.
func (p Program) tell(common *Common, s story.Story) (err error) {
	s.Next.Command = common.inStore(s.Next.Command)
	if common.JSON {
		return json.NewEncoder(p.Stdout).Encode(s)
	}
	_, err = p.Stdout.WriteString(storyText(s))
	return err
}

// storyOf reads what the store has about a run.
func (c *Common) storyOf(ctx context.Context, runID string) (s story.Story, err error) {
	db, err := c.openReader(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return readStory(ctx, db, runID)
}

// readStory costs two queries for the run, two for its layers and the time, and one for each layer.
func readStory(ctx context.Context, db database, runID string) (s story.Story, err error) {
	r := story.Record{RunID: runID}
	if r.Events, err = db.Read(ctx, watchdog.AggregateType, runID); err != nil {
		return s, err
	}
	row, rowErr := db.Session(ctx, runID)
	switch {
	case rowErr == nil:
		r.Row = &row
	case errors.Is(rowErr, session.ErrNotFound) && len(r.Events) == 0:
		return s, unknownRun(ctx, db, runID)
	case errors.Is(rowErr, session.ErrNotFound), errors.Is(rowErr, session.ErrUnreadable):
	default:
		return s, rowErr
	}
	if err := r.ReadLayers(ctx, db, ""); err != nil {
		return s, err
	}
	now, err := databaseTime(ctx, db)
	if err != nil {
		return s, err
	}
	s = story.Of(r, now)
	if errors.Is(rowErr, session.ErrUnreadable) {
		s.Others = append(s.Others, story.Other{At: now, Type: "session row", Problem: rowErr.Error()})
	}
	return s, nil
}

// databaseTime is by the clock that the times of sessions are by.
func databaseTime(ctx context.Context, db database) (time.Time, error) {
	page, err := db.List(ctx, session.ListQuery{Limit: 1})
	if err != nil {
		return time.Time{}, err
	}
	if page.Now.IsZero() {
		return time.Now(), nil
	}
	return page.Now, nil
}

// maxCompared is with how many of the latest sessions an unknown run ID is compared, maxNear how many are named.
const maxCompared, maxNear = 200, 3

// unknownRun says which runs have an ID like that.
func unknownRun(ctx context.Context, db database, runID string) error {
	page, err := db.List(ctx, session.ListQuery{Limit: maxCompared})
	if err != nil {
		return err
	}
	var near []string
	for _, s := range page.Sessions {
		if isNear(s.RunID, runID) && len(near) < maxNear {
			near = append(near, cut(plain(s.RunID), maxShownID))
		}
	}
	hint := "watchdog sessions lists those that there are"
	if len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "? watchdog sessions lists all"
	}
	return fmt.Errorf("the store has no run %s, and no event of one; %s", cut(plain(runID), maxShownID), hint)
}

// maxShownID is how many columns of a run ID an error shows.
const maxShownID = 60

// isNear reports whether an ID holds what was asked for, or begins with most of it.
func isNear(id, asked string) bool {
	id, asked = strings.ToLower(id), strings.ToLower(cmp.Or(asked, " "))
	common := 0
	for common < min(len(id), len(asked)) && id[common] == asked[common] {
		common++
	}
	return strings.Contains(id, asked) || common > 0 && common*3 >= len(asked)*2
}
