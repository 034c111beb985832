package converge

import "github.com/seed62658d38/watchdog"

// An Action is what a [Decision] asks the loop to do.
type Action string

// The actions.
const (
	// Continue goes on in the stage the loop is in.
	Continue Action = "continue"
	// Move goes on in another stage than before: the next one.
	Move Action = "move"
	// GiveUp ends the loop.
	GiveUp Action = "give_up"
)

// A Decision is the answer to one iteration. It shares nothing with its [Tracker].
type Decision struct {
	Action Action
	// Stage is the one that the next attempt is in; after giving up it is the last.
	Stage Stage
	// InRow is how many iterations, this one included, ended with the same set, or with one of those that the loop goes back and forth between. It is
	// 0 after an iteration that ended well.
	InRow int
	// Oscillates says that those iterations did not all have the same set.
	Oscillates bool
	// Fingerprints are those of the iteration, sorted, each once.
	Fingerprints []string
	// New were not there one iteration before, Gone were there and are not any more, Same are in both.
	New, Gone, Same []string
}

// StopReason is the code for a host's session row: [watchdog.OscillationDetected] after giving up on a loop that went back and forth. It is empty for
// every other decision: for a loop that ended with the same again and again the taxonomy has no code.
func (d Decision) StopReason() watchdog.StopReason {
	if d.Action == GiveUp && d.Oscillates {
		return watchdog.OscillationDetected
	}
	return ""
}
