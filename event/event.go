// Package event has the words of the event store: what an [Event] is, its kinds, and what a [Store] of them does. The
// guards write events, stores keep them, pages and commands read them.
//
// A run's events are those of one aggregate: [AggregateType] and the run's ID. What their payloads say is described in
// docs/events.md. Package eventtest says whether a store is right.
//
// The package says nothing of what the events of a run come to: a run does that when it attaches.
package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog/internal/invalid"
)

// ErrInvalid says that an event does not fit the event table. It is the ErrInvalid of every package of this module.
var ErrInvalid = invalid.Err

// AggregateType is the aggregate type of every event that a guard writes; the aggregate ID is the run ID.
const AggregateType = "runtime_control"

// Prefix begins every kind of the watchdog's own, which are never a signal.
const Prefix = "runtime.watchdog."

// The kinds of event. The payload of each is described in docs/events.md and held by golden files.
const (
	// Cancel says that a guard ended the run; its reason tells which limit or guard. There is one per window.
	Cancel = Prefix + "cancel"
	// Complete says that the host declared the run done, see Complete of package watchdog. It has the ID of the window's
	// cancel event, so that there is one end.
	Complete = Prefix + "complete"
	// Correction says that a cancel was wrong: what it names had finished by itself.
	Correction = Prefix + "correction"
	// Resume says that a cancelled or complete run was resumed and a fresh window opened.
	Resume = Prefix + "resume"
	// Extend says that a running window was given more time.
	Extend = Prefix + "extend"
	// Warning says that a chosen fraction of the wall-clock budget was used up, or that a limit was exceeded that
	// asks for a directive.
	Warning = Prefix + "warning"
	// Wait, Retry and Unstuck say that a limit was exceeded and the host was asked for that.
	Wait    = Prefix + "wait"
	Retry   = Prefix + "retry"
	Unstuck = Prefix + "unstuck"
	// WrapUp says that only the reserve of a limit is left and the host was asked to return what it has.
	WrapUp = Prefix + "wrap_up"
	// Progress says that progress put the ladders back to their first rungs, after directives were given.
	Progress = Prefix + "progress"
	// Hold and Release say that a hold which stops the wall clock was opened, and closed.
	Hold    = Prefix + "hold"
	Release = Prefix + "release"
	// Start says when a run began whose start the store keeps, see StartedAt of watchdog.Run.
	Start = Prefix + "start"
	// Interrupt says that something outside ended the run, not the watchdog.
	Interrupt = Prefix + "interrupt"
	// Overrun says that a bounded call in the run (package bound) took longer than it may, or was abandoned, or that
	// processes of its command (package stall) could not be ended. It ends nothing.
	Overrun = Prefix + "overrun"
)

// The lengths, in characters, that the columns of the event table give: a [Store] refuses what is longer.
const (
	MaxID            = 36
	MaxAggregateType = 100
	MaxAggregateID   = 255
	MaxType          = 200
	MaxConsensusID   = 36
)

// An Event is one row of the event store. Its JSON form is part of the contract; times in it are UTC RFC 3339 with six
// digits.
type Event struct {
	// ID names the event. A store keeps the first event of an ID and ignores every later one.
	ID string `json:"id"`
	// AggregateType and AggregateID name what the event is about; see [AggregateType].
	AggregateType string `json:"aggregate_type"`
	AggregateID   string `json:"aggregate_id"`
	// Type is the kind of event, such as [Cancel]. A host may keep kinds of its own in the same store.
	Type string `json:"event_type"`
	// Payload is one JSON object.
	Payload json.RawMessage `json:"payload"`
	// Timestamp orders the events of an aggregate. Stores keep it in UTC, truncated to the microsecond.
	Timestamp time.Time `json:"timestamp"`
	// ConsensusID is a column that some hosts use; the watchdog leaves it empty, which is NULL in SQL.
	ConsensusID string `json:"consensus_id,omitempty"`
}

// Validate reports whether the event fits the event table: every text within its column, not empty (ConsensusID may
// be) nor only white space, valid UTF-8 and without control characters, the time between the years 1 and 9999 and not
// zero, the payload one JSON object in UTF-8. The error wraps [ErrInvalid] and names the field.
func (e Event) Validate() error {
	for _, column := range []struct {
		name, value string
		limit       int
	}{
		{"id", e.ID, MaxID},
		{"aggregate_type", e.AggregateType, MaxAggregateType},
		{"aggregate_id", e.AggregateID, MaxAggregateID},
		{"event_type", e.Type, MaxType},
		{"consensus_id", e.ConsensusID, MaxConsensusID},
	} {
		flaw := Flaw(column.value, column.limit)
		if flaw != "" && (column.value != "" || column.name != "consensus_id") {
			return fmt.Errorf("%w event: %s %s", ErrInvalid, column.name, flaw)
		}
	}
	if year := e.Timestamp.UTC().Year(); e.Timestamp.IsZero() || year < 1 || year > 9999 {
		return fmt.Errorf("%w event: timestamp of event %s is zero or outside the years 1 to 9999", ErrInvalid, e.ID)
	}
	isObject := bytes.HasPrefix(bytes.TrimLeft(e.Payload, " \t\r\n"), []byte("{"))
	if !isObject || !json.Valid(e.Payload) || !utf8.Valid(e.Payload) {
		return fmt.Errorf("%w event: payload of event %s is not one JSON object in UTF-8", ErrInvalid, e.ID)
	}
	return nil
}

// Compare orders events as [Store.Read] returns them: by Timestamp, then by ID.
func (e Event) Compare(other Event) int {
	if c := e.Timestamp.Compare(other.Timestamp); c != 0 {
		return c
	}
	return strings.Compare(e.ID, other.ID)
}

// MarshalJSON writes the timestamp in UTC with six digits.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	return json.Marshal(struct {
		plain
		Timestamp Stamp `json:"timestamp"`
	}{plain(e), Stamp(e.Timestamp)})
}

// UnmarshalJSON reads what MarshalJSON wrote and the timestamps of other writers: any offset, any number of digits.
func (e *Event) UnmarshalJSON(text []byte) error {
	type plain Event
	read := struct {
		*plain
		Timestamp Stamp `json:"timestamp"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	e.Timestamp = time.Time(read.Timestamp)
	return nil
}
