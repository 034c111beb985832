package storeflow

import (
	"bytes"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/event"
)

// Validate returns the error of the first invalid event of a batch, with its number.
func Validate[E interface{ Validate() error }](events []E) error {
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("append event %d of %d: %w", i+1, len(events), err)
		}
	}
	return nil
}

// Truncate makes a time comparable with == to one that went through a store.
func Truncate(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// An ExchangeTx is a transaction in which nobody else changes what exchanges select.
type ExchangeTx interface {
	// Select returns what each of the exchanges selects. They have different aggregates.
	Select(exchanges []*event.Exchange) ([][]event.Event, error)
	// Insert stores the events whose IDs are not taken. It returns all as they will be read, and how many it stored.
	Insert(events []event.Event) (as []event.Event, inserted int, err error)
	// Stored returns what is stored under the IDs of the events, of all aggregates and in any order.
	Stored(events []event.Event) ([]event.Event, error)
}

// CarryOut carries out exchanges in their order, and returns what is stored under the IDs of each one's events.
func CarryOut(
	tx ExchangeTx, exchanges []*event.Exchange,
	decide func(*event.Exchange, []event.Event) ([]event.Event, error),
) ([][]event.Event, error) {
	var all []event.Event // that were decided on
	inserted, counts := 0, make([]int, 0, len(exchanges))
	for _, part := range WithoutRepeats(exchanges, aggregateOf) {
		selected, err := tx.Select(part)
		if err != nil {
			return nil, err
		}
		events := make([]event.Event, 0, len(part))
		for i, x := range part {
			decided, err := decide(x, selected[i])
			if err != nil {
				return nil, err
			}
			events, counts = append(events, decided...), append(counts, len(decided))
		}
		events, n, err := tx.Insert(events)
		if err != nil {
			return nil, err
		}
		all, inserted = append(all, events...), inserted+n
	}
	if inserted < len(all) { // nothing in the transaction changes an event, so that one look at the end will do
		if err := takeStored(tx, all); err != nil {
			return nil, err
		}
	}
	kept := make([][]event.Event, len(counts))
	for i, n := range counts {
		kept[i], all = all[:n:n], all[n:]
	}
	return kept, nil
}

// WithoutRepeats divides a batch into parts in which each key occurs once, in their order: what one element of a part
// does cannot concern another.
func WithoutRepeats[E any, K comparable](batch []E, keyOf func(E) K) (parts [][]E) {
	begin, occurs := 0, map[K]bool{}
	for i, e := range batch {
		key := keyOf(e)
		if occurs[key] {
			parts = append(parts, batch[begin:i])
			begin = i
			clear(occurs)
		}
		occurs[key] = true
	}
	return append(parts, batch[begin:])
}

// An aggregate is what an exchange is about. Of two exchanges of one the second sees what the first appended.
type aggregate struct{ kind, id string }

func aggregateOf(x *event.Exchange) aggregate { return aggregate{x.AggregateType, x.AggregateID} }

// takeStored replaces events by what is stored under their IDs. The caller may change the payloads.
func takeStored(tx ExchangeTx, events []event.Event) error {
	rows, err := tx.Stored(events)
	if err != nil {
		return err
	}
	stored := make(map[string]event.Event, len(rows))
	for _, e := range rows {
		stored[e.ID] = e
	}
	for i, e := range events {
		one, found := stored[e.ID]
		if !found {
			return fmt.Errorf("event %s was not stored: a trigger of the table or another program may have dropped it", e.ID)
		}
		one.Payload = bytes.Clone(one.Payload) // an ID may be there twice
		events[i] = one
	}
	return nil
}
