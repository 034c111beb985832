package session

import (
	"bytes"
	"encoding/json"

	"github.com/seed62658d38/watchdog"
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
