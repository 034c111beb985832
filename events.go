package watchdog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// AggregateType is the aggregate type of every event that a guard writes; the aggregate ID is the run ID.
const AggregateType = record.AggregateType

// eventPrefix begins every kind of the watchdog's own, which are never a signal.
const eventPrefix = record.EventPrefix

// The kinds of event. The payload of each is described in docs/events.md and held by golden files.
const (
	// EventCancel says that a guard ended the run; its reason tells which limit or guard. There is one per window.
	EventCancel = record.EventCancel
	// EventComplete says that the host declared the run done, see [Watchdog.Complete]. It has the ID of the window's
	// cancel event, so that there is one end.
	EventComplete = record.EventComplete
	// EventCorrection says that a cancel was wrong: what it names had finished by itself.
	EventCorrection = record.EventCorrection
	// EventResume says that a cancelled or complete run was resumed and a fresh window opened.
	EventResume = record.EventResume
	// EventExtend says that a running window was given more time.
	EventExtend = record.EventExtend
	// EventWarning says that a chosen fraction of the wall-clock budget was used up, or that a limit was exceeded that
	// asks for a directive.
	EventWarning = record.EventWarning
	// EventWait, EventRetry and EventUnstuck say that a limit was exceeded and the host was asked for that.
	EventWait    = record.EventWait
	EventRetry   = record.EventRetry
	EventUnstuck = record.EventUnstuck
	// EventWrapUp says that only the reserve of a limit is left and the host was asked to return what it has.
	EventWrapUp = record.EventWrapUp
	// EventProgress says that progress put the ladders back to their first rungs, after directives were given.
	EventProgress = record.EventProgress
	// EventHold and EventRelease say that a hold which stops the wall clock was opened, and closed.
	EventHold    = record.EventHold
	EventRelease = record.EventRelease
	// EventStart says when a run began whose start the store keeps, see [Run].StartedAt.
	EventStart = record.EventStart
	// EventInterrupt says that something outside ended the run, not the watchdog.
	EventInterrupt = record.EventInterrupt
	// EventOverrun says that a bounded call in the run (package bound) took longer than it may, or was abandoned, or that
	// processes of its command (package stall) could not be ended. It ends nothing.
	EventOverrun = record.EventOverrun
)

// The lengths, in characters, that the columns of the event table give: an [EventStore] refuses what is longer.
const (
	MaxEventID       = 36
	MaxAggregateType = 100
	MaxAggregateID   = 255
	MaxEventType     = 200
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
	// Type is the kind of event, such as [EventCancel]. A host may keep kinds of its own in the same store.
	Type string `json:"event_type"`
	// Payload is one JSON object.
	Payload json.RawMessage `json:"payload"`
	// Timestamp orders the events of an aggregate. Stores keep it in UTC, truncated to the microsecond.
	Timestamp time.Time `json:"timestamp"`
	// ConsensusID is a column that some hosts use; the watchdog leaves it empty, which is NULL in SQL.
	ConsensusID string `json:"consensus_id,omitempty"`
}

// An EventStore keeps events durably. Package storetest says whether an implementation is right. Its methods are
// called from several goroutines at once, and a call must return when its context ends.
type EventStore interface {
	// Append stores the events, all of them or, when it returns an error, none. An event whose ID is stored already
	// is skipped and counts as success: the first one stays as it is, whatever the second one says. When Append returns
	// nil the events are as durable as the store can make them. An event that fails [Event.Validate] is an
	// error that wraps [ErrInvalid]. Appending no events does nothing.
	Append(ctx context.Context, events ...Event) error
	// Read returns all events of one aggregate, ordered by Timestamp and where that is equal by ID, with
	// timestamps in UTC truncated to the microsecond. An aggregate without events is an empty slice and no error.
	// The caller may keep and change what it gets.
	Read(ctx context.Context, aggregateType, aggregateID string) ([]Event, error)
}

// A Selection says which events of one aggregate to read.
type Selection struct {
	AggregateType, AggregateID string
	// IDs selects the events of the aggregate with these IDs.
	IDs []string
	// Since selects besides every event from that time on, which is truncated to the microsecond. Zero selects none.
	Since time.Time
	// LatestOf selects besides, of the events before Since, the last one in the order of [EventStore.Read] whose type is
	// one of these. It has no effect without Since.
	LatestOf []string
	// Until and Known spare a caller what it has read before. If exactly Known events of the aggregate are from Since up
	// to, but not including, Until, Since needs to select only those from Until on: events are only ever added, so that
	// they are the ones that the caller knows. A store may ignore both, and select more. They have no effect without
	// Since, and none if Known is not positive.
	Until time.Time
	Known int
}

// An Exchange is what one transaction of a [TransactionalStore] does with one aggregate.
type Exchange struct {
	Selection
	// Decide gets the events that were selected, as [EventStore.Read] returns them, and returns the events to append. It
	// must not block. It is called again if the transaction has to be repeated.
	Decide func(selected []Event) []Event
	// Kept is set to the events that are stored under the IDs of those that Decide returned, in its order. Where another
	// process stored one first, that is another event.
	Kept []Event
}

// A TransactionalStore is an [EventStore] that can read a part of an aggregate, and read and append in one transaction.
// With such a store a trip costs one exchange, attaching to a run costs what its last window holds, and a process reads
// of that only once what it knows already. With any other store a run is read whole each time.
//
// A store that wraps another one has a method Unwrap() EventStore if what it does may be passed by: the methods of
// TransactionalStore and [LayerStore] are then found in the store inside. A wrapper that changes events
// has none. One that embeds a store of this module has these methods from it, and must override them together with
// Append and Read: cancels and completes go through Transact, so that a wrapper which overrides Append alone does not
// see them.
type TransactionalStore interface {
	EventStore
	// Select returns the events that the selection selects, each once, as Read returns them.
	Select(ctx context.Context, s Selection) ([]Event, error)
	// Transact carries out all exchanges, in their order, or, if it returns an error, none. No other Transact with the
	// same aggregate comes between the reading and the appending of one. Events are appended as Append does.
	Transact(ctx context.Context, exchanges ...*Exchange) error
}

// A LayerStore is an [EventStore] that finds the layers of a run, for a page or a command line.
type LayerStore interface {
	EventStore
	// Layers returns the IDs of the aggregates of [AggregateType] that have an event whose payload names parent as its
	// parent, sorted.
	Layers(ctx context.Context, parent string) ([]string, error)
}

// Validate reports whether the event fits the event table: every text within its column, not empty (ConsensusID may
// be) nor only white space, valid UTF-8 and without control characters, the time between the years 1 and 9999 and not
// zero, the payload one JSON object in UTF-8. The error wraps [ErrInvalid] and names the field.
func (e Event) Validate() error {
	for _, column := range []struct {
		name, value string
		limit       int
	}{
		{"id", e.ID, MaxEventID},
		{"aggregate_type", e.AggregateType, MaxAggregateType},
		{"aggregate_id", e.AggregateID, MaxAggregateID},
		{"event_type", e.Type, MaxEventType},
		{"consensus_id", e.ConsensusID, MaxConsensusID},
	} {
		flaw := record.TextFlaw(column.value, column.limit)
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

// Compare orders events as [EventStore.Read] returns them: by Timestamp, then by ID.
func (e Event) Compare(other Event) int {
	return fold.Event(e).Compare(fold.Event(other))
}

// MarshalJSON writes the timestamp in UTC with six digits.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	return json.Marshal(struct {
		plain
		Timestamp record.Stamp `json:"timestamp"`
	}{plain(e), record.Stamp(e.Timestamp)})
}

// UnmarshalJSON reads what MarshalJSON wrote and the timestamps of other writers: any offset, any number of digits.
func (e *Event) UnmarshalJSON(text []byte) error {
	type plain Event
	read := struct {
		*plain
		Timestamp record.Stamp `json:"timestamp"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	e.Timestamp = time.Time(read.Timestamp)
	return nil
}
