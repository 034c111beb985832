package storetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var layerRules = []rule{
	{
		"layers are the aggregates whose events name exactly this parent, each once and sorted",
		"a page that shows a run with another run's layers, or without its own, explains the wrong stop",
		feeding(func(ctx context.Context, store watchdog.FeedStore) error {
			if err := put(ctx, store, family()...); err != nil {
				return err
			}
			for parent, want := range map[string][]string{
				"run":   {"B", "a", "run/step"},
				"RUN":   {"folded"},
				`"quo'`: {"quoted"},
				"r%":    {"pattern"},
				"5":     nil,
				"ru":    nil,
				"none":  nil,
			} {
				layers, err := store.Layers(ctx, parent)
				if err != nil {
					return fmt.Errorf("layers of %q: %w", parent, err)
				}
				if !slices.Equal(layers, want) {
					return fmt.Errorf("layers of %q: got %q, want %q", parent, layers, want)
				}
			}
			return nil
		}),
	},
	{
		"a query for layers with a done context returns the context's error",
		"the caller no longer waits: an answer that looks like a run without layers is worse than the error",
		feeding(func(ctx context.Context, store watchdog.FeedStore) error {
			return contract.WithDoneContexts(ctx, func(done context.Context) error {
				_, err := store.Layers(done, "run")
				return wrapsContextError(done, "Layers", err)
			})
		}),
	},
}

// family returns events of layers, and events whose payloads look like those of layers.
func family() (events []watchdog.Event) {
	add := func(aggregateID, payload string) *watchdog.Event {
		n := len(events)
		e := inAggregate(numbered(fmt.Sprint("event-", n), n), aggregateID)
		e.Payload = []byte(payload)
		events = append(events, e)
		return &events[n]
	}
	add("run/step", `{"reason":"x","parent":"run"}`)
	add("a", `{"parent":"run"}`)
	add("a", `{"parent":"run","n":2}`)
	add("a", `{"n":3}`)
	add("B", `{"n":1}`)
	add("B", `{"parent":"run"}`)
	add("folded", `{"parent":"RUN"}`)
	add("quoted", `{"parent":"\"quo'"}`)
	add("pattern", `{"parent":"r%"}`)
	add("longer", `{"parent":"run/step"}`)
	add("spaced", `{"parent":"run "}`)
	add("nested", `{"layer":{"parent":"run"}}`)
	add("listed", `{"parent":["run"]}`)
	add("number", `{"parent":5}`)
	add("null", `{"parent":null}`)
	add("capital", `{"Parent":"run"}`)
	add("hosts", `{"parent":"run"}`).AggregateType = "session"
	return events
}
