package converge

import "github.com/seed62658d38/watchdog"

// An Action is what a [Decision] asks the loop to do.
type Action string

// The actions.
const (
	// Continue goes on in the same stage.
	Continue Action = "continue"
	// Move goes on in the next stage.
	Move Action = "move"
	// GiveUp ends the loop.
	GiveUp Action = "give_up"
)

// A Decision is the answer to one iteration. It shares no memory with its [Tracker].
type Decision struct {
	Action Action
	// Stage is the stage of the next attempt. After giving up it is the last stage.
	Stage Stage
	// InRow is how many iterations in a row, this one included, ended with the same set, or with one of those that the
	// loop goes back and forth between. It is 0 after an iteration that ended well.
	InRow int
	// Oscillates says that those iterations had different sets.
	Oscillates bool
	// Fingerprints are the iteration's, sorted, without duplicates.
	Fingerprints []string
	// New are not in the iteration before, Gone are only in that one, and Same are in both.
	New, Gone, Same []string
}

// StopReason returns the code for a host's session row. It is [watchdog.OscillationDetected] after giving up on a
// loop that went back and forth. It is empty for every other decision: there is no code for a loop that keeps ending
// the same.
func (d Decision) StopReason() watchdog.StopReason {
	if d.Action == GiveUp && d.Oscillates {
		return watchdog.OscillationDetected
	}
	return ""
}
