package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
)

// ReasonFailed is the reason by which [Lister.List] finds sessions that [Session.Failed], whose Reason is "complete".
const ReasonFailed watchdog.StopReason = record.Failed

// Failed reports whether the session is [Finished] and its command failed, as its [State] says: its run has not done
// its work, and can be resumed.
func (s Session) Failed() bool {
	var state State
	return s.Status == Finished && s.Reason == record.CompleteReason && bytes.Contains(s.State, []byte(record.Failed)) &&
		json.Unmarshal(s.State, &state) == nil && state.Outcome == record.Failed
}

// StoredState returns the [State] that the row of a session has after the event that ended it: what it says so far, and
// how the run's command ended. It returns nil if the event does not say that; the row then keeps its State. A store
// uses it as it uses [StoredEnd].
func StoredState(state json.RawMessage, e watchdog.Event) json.RawMessage {
	var p record.Complete
	if e.Type != watchdog.EventComplete || json.Unmarshal(e.Payload, &p) != nil || p.Outcome == "" {
		return nil
	}
	fields := map[string]json.RawMessage{} // with those that this version does not know
	if len(state) > 0 && json.Unmarshal(state, &fields) != nil || fields == nil {
		return nil // of another program
	}
	if err := json.Unmarshal(record.JSON(p.CommandEnd), &fields); err != nil {
		return nil
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return text
}

// StoredEnd returns the status and the reason that the row of a session has after the event that ended it, a
// [watchdog.EventCancel] or a [watchdog.EventComplete]: the events and the row say the same. A store uses it in Claim
// and Cancel. The reason of a cancel that cannot be read is empty.
func StoredEnd(e watchdog.Event) (Status, watchdog.StopReason) {
	if e.Type == watchdog.EventComplete {
		return Finished, record.CompleteReason
	}
	return Cancelled, watchdog.StopReason(record.Code(reasonOf(e)))
}

// reasonOf returns the reason in the payload of a cancel. That of another writer may have none.
func reasonOf(e watchdog.Event) (reason string) {
	var fields map[string]json.RawMessage // the fields of a struct ignore case
	_ = json.Unmarshal(e.Payload, &fields)
	_ = json.Unmarshal(fields["reason"], &reason)
	return reason
}

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
