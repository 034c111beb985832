package watchdog

import (
	"context"
	"time"
)

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
// With such a store a trip costs one exchange, and attaching to a run costs what its last window holds. With any other
// store a run is read whole.
//
// A store that wraps another one has a method Unwrap() EventStore if what it does may be passed by: the methods of
// TransactionalStore, [FeedStore] and [SpendStore] are then found in the store inside. A wrapper that changes events
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

// A FeedStore is an [EventStore] that can be watched, by a page or a command line.
type FeedStore interface {
	EventStore
	// Layers returns the IDs of the aggregates of [AggregateType] that have an event whose payload names parent as its
	// parent, sorted.
	Layers(ctx context.Context, parent string) ([]string, error)
	// Follow calls told for each event of [AggregateType] that is stored from now on, whoever stores it, until ctx ends
	// or a read fails, and returns the error of that. An empty aggregateID follows all of them. Each event is told once,
	// within a few seconds. Ready is called when nothing that is stored afterwards can be missed.
	Follow(ctx context.Context, aggregateID string, ready func(), told func(Event)) error
}
