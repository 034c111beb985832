package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

// What the record says of a command that failed whatever its exit status is.
const (
	guardDied  = "its guard was killed, and nobody saw how it ended"
	allRefused = "none of its calls of models was answered, and %d were refused"
)

// complete records that the command ended by itself, and how.
func (e *ending) complete(run *watchdog.Watchdog) error {
	note := e.ended()
	n := e.meter.refusedAll()
	switch {
	case !e.result.Finished && e.result.Signal == 0:
		note = guardDied
	case n > 0:
		note += ", and " + fmt.Sprintf(allRefused, n)
	case e.meter.noCall(e.result) != "":
		note += ", and " + noCallNote
	}
	run.Note(note)
	return handle.Of(run.Context()).CompleteCommand(e.outcome())
}

// outcome is how a command ended that nobody stopped. It has failed, too, if its guard was killed, or if every call of
// a model that it made was refused.
func (e *ending) outcome() record.CommandEnd {
	r := e.result
	end := record.CommandEnd{Outcome: record.Failed}
	switch {
	case r.Signal != 0:
		end.Signal = signalName(r.Signal)
	case r.Finished:
		status := record.Count(r.ExitCode)
		end.ExitStatus = &status
	}
	if r.Finished && r.Signal == 0 && r.ExitCode == 0 && e.meter.refusedAll() == 0 {
		end.Outcome = record.Succeeded
	}
	return end
}

// refusedAll returns how many calls were refused, if none was answered.
func (m *meter) refusedAll() int64 {
	if m == nil || m.proxy.Answered() > 0 {
		return 0
	}
	n := int64(0)
	for _, r := range m.proxy.Refused() {
		n += r.Count
	}
	return n
}

// unfinished reads what became of an earlier run of this name that failed or was stopped: a run goes on with it in a
// fresh window. It returns nil if there is none, and an error that says what to do if it has done its work. A run that
// a meter counts goes on in its window if what it may spend was used up: only a person gives it all of that again.
func unfinished(ctx context.Context, db database, id string, plan *meterPlan) (*story.Story, error) {
	found := story.Record{RunID: id}
	var err error
	if found.Events, err = db.Read(ctx, watchdog.AggregateType, id); err != nil {
		return nil, err
	}
	row, err := db.Session(ctx, id)
	switch {
	case err == nil:
		found.Row = &row
	case !errors.Is(err, session.ErrNotFound):
		return nil, err
	}
	switch told := story.Of(found, time.Now()); told.State {
	case story.Complete:
		return nil, fmt.Errorf("run %q has done its work, at %s: use another --id, or write watchdog resume %s first", id,
			told.End.At.UTC().Format(time.RFC3339), quoted(id))
	case story.Failed, story.Stopped:
		if plan == nil || !slices.Contains(spendCodes, told.End.Code) {
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
	p.say(plain(fmt.Sprintf("run %s %s: it is resumed, in %s", before.RunID, how, window)))
}
