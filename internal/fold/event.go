package fold

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// An Event is one event of a run, as a store has it. It has the fields of the root's, which is converted to it.
type Event struct {
	ID            string
	AggregateType string
	AggregateID   string
	Type          string
	Payload       json.RawMessage
	Timestamp     time.Time
	ConsensusID   string
}

// Compare orders events as stores return them: by Timestamp, then by ID.
func (e Event) Compare(other Event) int {
	if c := e.Timestamp.Compare(other.Timestamp); c != 0 {
		return c
	}
	return strings.Compare(e.ID, other.ID)
}

// A Selection says which events of an aggregate to return. It has the fields of the root's, which is converted to it.
type Selection struct {
	AggregateType, AggregateID string
	IDs                        []string
	Since                      time.Time
	LatestOf                   []string
	Until                      time.Time
	Known                      int
}

// An UnreadableError names an event whose payload cannot be understood, and says why. It may be of the window that
// counts.
type UnreadableError struct {
	Event     Event
	StartedAt time.Time // of its window; zero if that cannot be read either
	Err       error
}

// Error names the event and its run.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("%s (%s) of run %s: %v", e.Event.ID, e.Event.Type, e.Event.AggregateID, e.Err)
}

// Unwrap returns why it cannot be understood.
func (e *UnreadableError) Unwrap() error { return e.Err }

var errNoStart = errors.New("it has no session_started_at")
