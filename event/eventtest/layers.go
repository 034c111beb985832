package eventtest

import (
	"fmt"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var layerRules = []eventRule{
	{"layers are the aggregates whose events name exactly this parent, each once and sorted",
		"a page that shows a run with another run's layers, or without its own, explains the wrong stop", inTurn(
			put(family()...),
			hasLayers("run", "B", "a", "run/step"), hasLayers("RUN", "folded"), hasLayers(`"quo'`, "quoted"),
			hasLayers("r%", "pattern"), hasLayers("5"), hasLayers("ru"), hasLayers("none"),
		)},
	{"a query for layers with a done context returns the context's error",
		"what looks like a run without layers is worse than the error", withDoneContexts(hasLayers("run"))},
}

func hasLayers(parent string, want ...string) eventStep {
	return func(e *eventEnv) {
		layers, err := contract.Optional[event.LayerStore](e).Layers(e.Ctx, parent)
		contract.Must(err, "layers of %q", parent)
		sameNames(fmt.Sprintf("layers of %q", parent), layers, want)
	}
}

// family returns events of layers, and events whose payloads look like those of layers.
func family() (events []event.Event) {
	for i, one := range []struct{ aggregate, payload string }{
		{"run/step", `{"reason":"x","parent":"run"}`},
		{"a", `{"parent":"run"}`},
		{"a", `{"parent":"run","n":2}`},
		{"a", `{"n":3}`},
		{"B", `{"n":1}`},
		{"B", `{"parent":"run"}`},
		{"folded", `{"parent":"RUN"}`},
		{"quoted", `{"parent":"\"quo'"}`},
		{"pattern", `{"parent":"r%"}`},
		{"longer", `{"parent":"run/step"}`},
		{"spaced", `{"parent":"run "}`},
		{"nested", `{"layer":{"parent":"run"}}`},
		{"listed", `{"parent":["run"]}`},
		{"number", `{"parent":5}`},
		{"null", `{"parent":null}`},
		{"capital", `{"Parent":"run"}`},
		{"hosts", `{"parent":"run"}`},
	} {
		e := inAggregate(numbered(fmt.Sprint("event-", i), i), one.aggregate)
		e.Payload = []byte(one.payload)
		if one.aggregate == "hosts" {
			e = ofSession(e)
		}
		events = append(events, e)
	}
	return events
}
