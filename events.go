package watchdog

import "github.com/seed62658d38/watchdog/event"

// An EventStore keeps events durably; package event says what else a store can do. Its methods are Append, which stores
// events, all or none, each ID once, and Read, which returns all events of one aggregate in their order. They are
// called from several goroutines at once, and a call must return when its context ends.
type EventStore = event.Store

// An Event is one row of the event store. Its fields are ID, AggregateType, AggregateID, Type, Payload, Timestamp and
// ConsensusID; its methods are Validate, which says what does not fit the event table, Compare, which orders events as
// a store returns them, MarshalJSON and UnmarshalJSON. Package event names its kinds.
type Event = event.Event

// A Memory is an [EventStore] that keeps what it is told in memory: for tests, and for hosts that do not need to know
// after a restart why a run ended. The zero value is ready; it must not be copied after its first use. Beside Append
// and Read it has Select, Transact and Layers, which package event describes, and Len, which counts the events of an
// aggregate. Safe for concurrent use.
type Memory = event.Memory
