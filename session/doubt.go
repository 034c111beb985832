package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A doubtfulEnd is how a run ended as its process knows it. The store may have its window's end, another one. If nobody
// ran in the window, it may not have been opened.
type doubtfulEnd struct {
	Ending
	startedAt time.Time
	ran       bool
}

// doubted returns the end of a run with what is needed to look it up, and reports whether it has to be looked up before
// it is written.
func doubted(e Ending, run *watchdog.Watchdog) (d doubtfulEnd, doubt bool) {
	complete, resumed := handle.Of(run.Context()).InDoubt()
	if resumed {
		e.Status, e.Reason = Interrupted, ""
	}
	return doubtfulEnd{e, run.StartedAt(), !resumed}, complete || resumed
}

// asStored returns an ending that says what the end of the run's window says, if that is stored: the row and the events
// say the same. If nobody ran in the window and it never opened, it is that of a Resume which failed, and the run has
// ended as before: with the last end that is stored.
func (d doubtfulEnd) asStored(ctx context.Context, store Store) (Ending, error) {
	e := d.Ending
	events, err := store.Read(ctx, watchdog.AggregateType, e.RunID)
	if err != nil {
		return e, fmt.Errorf("look up the end of run %s: %w", e.RunID, err)
	}
	end := record.EventID(e.RunID, record.Stamp(d.startedAt).String(), watchdog.EventCancel, record.Once)
	before, opened := e, d.ran
	var last watchdog.Event
	for _, event := range events {
		switch {
		case event.ID == end:
			e.Status, e.Reason = StoredEnd(event)
			return e.withStoredState(ctx, store, event)
		case event.Type == watchdog.EventResume:
			opened = opened || opens(event, d.startedAt)
		case event.Type == watchdog.EventCancel || event.Type == watchdog.EventComplete:
			before.Status, before.Reason = StoredEnd(event)
			last = event
		}
	}
	if opened {
		return e, nil
	}
	return before.withStoredState(ctx, store, last)
}

// withStoredState has an ending say how the run's command ended, if the event of its end does.
func (e Ending) withStoredState(ctx context.Context, store Store, end watchdog.Event) (Ending, error) {
	if StoredState(nil, end) == nil {
		return e, nil
	}
	row, err := store.Session(ctx, e.RunID)
	if err != nil && !permanent(err) {
		return e, fmt.Errorf("look up the row of run %s: %w", e.RunID, err)
	}
	e.State = StoredState(row.State, end)
	return e, nil
}

// opens reports whether a resume opened the window that began then. Its ID is named by the window before.
func opens(resume watchdog.Event, startedAt time.Time) bool {
	var of record.Window
	err := json.Unmarshal(resume.Payload, &of)
	return err == nil && time.Time(of.SessionStartedAt).Equal(record.Truncate(startedAt))
}
