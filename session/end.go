package session

import (
	"encoding/json"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/seam"
)

// StoredEnd returns the status and the reason that the row of a session has after the event that ended it, a
// [watchdog.EventCancel] or a [watchdog.EventComplete]: the events and the row say the same. A store uses it in Claim
// and Cancel. The reason of a cancel that cannot be read is empty.
func StoredEnd(e watchdog.Event) (Status, watchdog.StopReason) {
	if e.Type == watchdog.EventComplete {
		return Finished, record.CompleteReason
	}
	var fields map[string]json.RawMessage // the fields of a struct ignore case
	var reason string
	_ = json.Unmarshal(e.Payload, &fields)
	_ = json.Unmarshal(fields["reason"], &reason) // another writer's cancel may have none
	return Cancelled, watchdog.StopReason(seam.Code(reason))
}
