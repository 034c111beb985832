package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
)

var refusalRules = []rule{
	{
		"an invalid event is refused with ErrInvalid",
		"a caller retries if the store fails, but not if the event can never be stored: errors.Is tells them apart",
		func(ctx context.Context, store watchdog.EventStore) error {
			return refusesEach(ctx, store, flaws, func(err error) error {
				if !errors.Is(err, watchdog.ErrInvalid) {
					return fmt.Errorf("the error does not wrap ErrInvalid: %w", err)
				}
				return nil
			})
		},
	},
	{
		"a text longer than its column is refused",
		"a text that is cut to fit becomes another run's ID, and the event is lost for its own run",
		func(ctx context.Context, store watchdog.EventStore) error {
			return refusesEach(ctx, store, overlong, func(error) error { return nil })
		},
	},
}

// A flaw makes a valid event invalid.
type flaw struct {
	name  string
	spoil func(*watchdog.Event)
}

var flaws = []flaw{
	{"an empty ID", func(e *watchdog.Event) { e.ID = "" }},
	{"a blank ID", func(e *watchdog.Event) { e.ID = "  " }},
	{"an ID with a line break", func(e *watchdog.Event) { e.ID = "a\nb" }},
	{"an ID with a NUL", func(e *watchdog.Event) { e.ID = "a\x00b" }},
	{"an ID that is not UTF-8", func(e *watchdog.Event) { e.ID = "a\xff" }},
	{"an empty aggregate type", func(e *watchdog.Event) { e.AggregateType = "" }},
	{"an empty aggregate ID", func(e *watchdog.Event) { e.AggregateID = "" }},
	{"an aggregate ID with a control character", func(e *watchdog.Event) { e.AggregateID = runID + "\x1b" }},
	{"an empty event type", func(e *watchdog.Event) { e.Type = "" }},
	{"a consensus ID with a control character", func(e *watchdog.Event) { e.ConsensusID = "\t" }},
	{"a zero timestamp", func(e *watchdog.Event) { e.Timestamp = time.Time{} }},
	{"a timestamp after the year 9999", func(e *watchdog.Event) { e.Timestamp = noon.AddDate(8000, 0, 0) }},
	{"a timestamp before the year 1", func(e *watchdog.Event) { e.Timestamp = noon.AddDate(-2030, 0, 0) }},
	{"no payload", func(e *watchdog.Event) { e.Payload = nil }},
	{"a payload that is broken JSON", func(e *watchdog.Event) { e.Payload = []byte(`{"a":`) }},
	{"a payload that is an array", func(e *watchdog.Event) { e.Payload = []byte(`[1]`) }},
	{"a payload that is null", func(e *watchdog.Event) { e.Payload = []byte(`null`) }},
	{"a payload of two objects", func(e *watchdog.Event) { e.Payload = []byte(`{}{}`) }},
}

var overlong = []flaw{
	{"an ID", func(e *watchdog.Event) { e.ID = strings.Repeat("x", watchdog.MaxEventID+1) }},
	{"an aggregate type", func(e *watchdog.Event) { e.AggregateType = strings.Repeat("x", watchdog.MaxAggregateType+1) }},
	{"an aggregate ID", func(e *watchdog.Event) { e.AggregateID = strings.Repeat("é", watchdog.MaxAggregateID+1) }},
	{"an event type", func(e *watchdog.Event) { e.Type = strings.Repeat("x", watchdog.MaxEventType+1) }},
	{"a consensus ID", func(e *watchdog.Event) { e.ConsensusID = strings.Repeat("é", watchdog.MaxConsensusID+1) }},
}

// refusesEach appends an event with each flaw and checks that the store refuses it. It stops at the first one stored.
func refusesEach(ctx context.Context, store watchdog.EventStore, flaws []flaw, alsoOf func(error) error) error {
	const before = "before"
	if err := put(ctx, store, numbered(before, 0)); err != nil {
		return err
	}
	for _, f := range flaws {
		e := numbered("flawed", 1)
		f.spoil(&e)
		refusal := store.Append(ctx, e)
		if err := refused(ctx, store, refusal, before, f.name); err != nil {
			return err
		}
		if err := alsoOf(refusal); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}
