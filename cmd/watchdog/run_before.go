package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/story"
)

// unfinished reads what became of an earlier run of this name that failed or was stopped: a run goes on with it in a
// fresh window. It returns nil if there is none, and an error that says what to do if it has done its work. A run that
// a meter counts goes on in its window if what it may spend was used up: only a person gives it all of that again.
func unfinished(
	ctx context.Context, common *Common, db stores.Database, id string, plan *meterPlan,
) (*story.Story, error) {
	found, err := stores.Record(ctx, db, id)
	if err != nil {
		return nil, err
	}
	switch told := story.Of(found, time.Now()); told.State {
	case story.Complete:
		return nil, fmt.Errorf("run %q has done its work, at %s: use another --id, or write %s first", id,
			told.End.At.UTC().Format(time.RFC3339), common.line("resume", id))
	case story.Failed, story.Stopped:
		if plan == nil || !ofSpend(told.End.Code) {
			return &told, nil
		}
	}
	return nil, nil
}

// sayResumed says in one line that the run goes on with one that failed or was stopped.
func (p Program) sayResumed(before *story.Story, plan *meterPlan) {
	how := "failed"
	if before.State == story.Stopped {
		how = "was stopped"
	}
	how += " at " + before.End.At.UTC().Format(time.RFC3339)
	if text := before.End.Why(); text != "" {
		how += " (" + text + ")"
	}
	window := "a fresh window"
	if plan != nil {
		window += " with all that it may spend"
	}
	p.say(term.Plain(fmt.Sprintf("run %s %s: it is resumed, in %s", before.RunID, how, window)))
}
