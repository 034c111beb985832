package event

import (
	"context"
	"time"
)

// An Store keeps events durably. Package eventtest says whether an implementation is right. Its methods are
// called from several goroutines at once, and a call must return when its context ends.
type Store interface {
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
	// LatestOf selects besides, of the events before Since, the last one in the order of [Store.Read] whose type is
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
	// Decide gets the events that were selected, as [Store.Read] returns them, and returns the events to append. It
	// must not block. It is called again if the transaction has to be repeated.
	Decide func(selected []Event) []Event
	// Kept is set to the events that are stored under the IDs of those that Decide returned, in its order. Where another
	// process stored one first, that is another event.
	Kept []Event
}

// A TransactionalStore is a [Store] that can read a part of an aggregate, and read and append in one transaction.
// With such a store a trip costs one exchange, attaching to a run costs what its last window holds, and a process reads
// of that only once what it knows already. With any other store a run is read whole each time.
//
// A store that wraps another one has a method Unwrap() Store if what it does may be passed by: the methods of
// TransactionalStore and [LayerStore] are then found in the store inside. A wrapper that changes events
// has none. One that embeds a store of this module has these methods from it, and must override them together with
// Append and Read: cancels and completes go through Transact, so that a wrapper which overrides Append alone does not
// see them.
type TransactionalStore interface {
	Store
	// Select returns the events that the selection selects, each once, as Read returns them.
	Select(ctx context.Context, s Selection) ([]Event, error)
	// Transact carries out all exchanges, in their order, or, if it returns an error, none. No other Transact with the
	// same aggregate comes between the reading and the appending of one. Events are appended as Append does.
	Transact(ctx context.Context, exchanges ...*Exchange) error
}

// A LayerStore is a [Store] that finds the layers of a run, for a page or a command line.
type LayerStore interface {
	Store
	// Layers returns the IDs of the aggregates of [AggregateType] that have an event whose payload names parent as its
	// parent, sorted.
	Layers(ctx context.Context, parent string) ([]string, error)
}
