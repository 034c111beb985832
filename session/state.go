package session

import (
	"encoding/json"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/seam"
)

// A State is what the process of a run says about it, as JSON in the row, so that others can show a run of another
// host. Lengths are in seconds; a limit that is off is left out. Fields are added and never renamed.
type State struct {
	WallClock  float64 `json:"wall_clock_seconds,omitempty"` // with the extensions
	Safety     float64 `json:"safety_seconds,omitempty"`
	Idle       float64 `json:"idle_seconds,omitempty"`
	NoProgress float64 `json:"no_progress_seconds,omitempty"`
	Reserve    float64 `json:"reserve_seconds,omitempty"`
	// Warned is how many warnings the run was given, and WrappedUp whether it was asked to wrap up.
	Warned    int  `json:"warned,omitempty"`
	WrappedUp bool `json:"wrapped_up,omitempty"`
	// Paused is how long holds have stopped the wall clock, Holds how many holds are open.
	Paused float64 `json:"paused_seconds,omitempty"`
	Holds  int     `json:"holds,omitempty"`
	// Phase is what the run noted last.
	Phase string `json:"phase,omitempty"`
}

// stateOf returns what there is to say about a run.
func stateOf(w *watchdog.Watchdog) json.RawMessage {
	text, err := json.Marshal(State(seam.StateOf(w)))
	if err != nil {
		return nil // cannot happen: the state has numbers and a text
	}
	return text
}
