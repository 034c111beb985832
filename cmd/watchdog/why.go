package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/why"
	"github.com/seed62658d38/watchdog/internal/story"
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
	found, err := why.Artifacts(w.Of)
	switch {
	case err != nil && common.Store == "":
		return fmt.Errorf("%w; for a run in a database, %w", err, stores.ErrNone)
	case err == nil:
		if common.Store != "" {
			p.say(fmt.Sprintf("%s is a folder with artifacts, and this is what they say; from another folder, the name is the "+
				"run's in the store", term.Plain(w.Of)))
		}
		return tellArtifacts(p, common, found)
	}
	return p.withStore(ctx, common, stores.Reading, func(db stores.Database) error {
		told, err := why.Read(ctx, db, w.Of)
		if err != nil {
			return err
		}
		return p.tell(common, told)
	})
}

func (p Program) tell(common *Common, s story.Story) (err error) {
	s.Next.Command = common.inStore(s.Next.Command)
	if common.JSON {
		return json.NewEncoder(p.Stdout).Encode(s)
	}
	_, err = p.Stdout.WriteString(why.Text(s))
	return err
}

// tellArtifacts tells one command's story, or of several one line each, the latest first. With --json each is told
// whole, one on a line.
func tellArtifacts(p Program, common *Common, files []string) error {
	var all []story.Story
	var unread error
	for _, file := range files {
		s, err := why.ReadArtifact(file)
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b story.Story) int { return endOf(b).Compare(endOf(a)) })
	if len(all) == 0 {
		return unread
	}
	if unread != nil {
		p.say(unread.Error())
	}
	if len(all) > 1 && !common.JSON {
		_, err := p.Stdout.WriteString(why.StepsText(all))
		return err
	}
	for _, s := range all {
		if err := p.tell(common, s); err != nil {
			return err
		}
	}
	return nil
}

func endOf(s story.Story) time.Time {
	if s.End == nil {
		return time.Time{}
	}
	return s.End.At
}
