package watchdog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
)

// agree reports whether the error is the wanted one.
func (h *pastimes) agree(what string, err, want error) bool {
	ok := errors.Is(err, want) && (err == nil) == (want == nil)
	if !ok {
		h.fail("%s: %v, want %v", what, err, want)
	}
	return ok
}

// compare looks at all that is guarded, and then again: what one process finds the other can learn of.
func (h *pastimes) compare() {
	for _, p := range h.processes {
		for _, g := range p.runs {
			g.wd.Fired()
			g.model.look()
		}
	}
	for _, p := range h.processes {
		for _, g := range p.runs {
			if h.flaw == "" {
				h.compareRun(g)
			}
		}
	}
	for _, p := range h.processes {
		h.compareBusy(p)
	}
	if h.database.exchanges > maxExchanges {
		h.fail("a process asks the store for ever")
	}
	h.database.exchanges = 0
}

func (h *pastimes) compareRun(g *guarded) {
	g.model.look()
	code, fired := g.wd.Fired()
	if m := g.model; fired != (m.stop != nil) || fired && code != m.stop.code {
		h.fail("%s: fired %v %s, want %+v", g.name, fired, code, m.stop)
	}
	cause := context.Cause(g.wd.Context())
	if cause == nil != g.model.running() || !errors.Is(cause, g.model.cause) {
		h.fail("%s: ended with %v, want %v", g.name, cause, g.model.cause)
	}
	if got, want := g.wd.Elapsed(), g.model.elapsed; got != want {
		h.fail("%s: elapsed %v, want %v", g.name, got, want)
	}
	if got, want := g.wd.Remaining(), g.model.remaining(); got != want {
		h.fail("%s: remaining %v, want %v", g.name, got, want)
	}
	var asked []modelMail
	for d, ok := g.wd.Poll(); ok; d, ok = g.wd.Poll() {
		asked = append(asked, modelMail{d.Kind, d.Reason, d.Hold, d.Rung})
	}
	if want := g.model.polled(); !slices.Equal(asked, want) {
		h.fail("%s: asked %+v, want %+v", g.name, asked, want)
	}
	if h.logs && len(asked) > 0 {
		h.say("  %s is asked %+v", g.name, asked)
	}
}

// compareStore compares the events of every window. The names of layers' windows are random: they are told apart, and
// then only counted.
func (h *pastimes) compareStore() {
	run := h.storedCounts("s-1", func(p storedPayload) string { return p.Start.UTC().Format(time.RFC3339Nano) })
	for _, w := range h.windows {
		name := w.start.Format(time.RFC3339Nano)
		if !maps.Equal(run[name], w.counts) && len(run[name])+len(w.counts) > 0 {
			h.fail("the store has %v of the window of %s, want %v", run[name], name, w.counts)
		}
		delete(run, name)
	}
	if len(run) > 0 {
		h.fail("the store has windows that never were: %v", run)
	}
	h.compareLayers()
}

func (h *pastimes) compareLayers() {
	var got, want []string
	for _, counts := range h.storedCounts("s-1/step", func(p storedPayload) string { return p.Window }) {
		got = append(got, fmt.Sprint(counts))
	}
	for _, w := range h.layers {
		if len(w.counts) > 0 {
			want = append(want, fmt.Sprint(w.counts))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.fail("the store has layers with %v, want %v", got, want)
	}
}

type storedPayload struct {
	Start  time.Time `json:"session_started_at"`
	Window string    `json:"window"`
	Parent string    `json:"parent"`
}

// storedCounts counts the events of an aggregate by window and kind.
func (h *pastimes) storedCounts(aggregate string, window func(storedPayload) string) map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, e := range h.database.events[aggregate] {
		if e.Type == watchdog.EventCheckpoint { // changes nothing
			continue
		}
		var p storedPayload
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			h.fail("event %s: %v", e.Payload, err)
		}
		if (p.Parent == "s-1") != strings.Contains(aggregate, "/") {
			h.fail("event of %s names its parent %q", aggregate, p.Parent)
		}
		name := window(p)
		if all[name] == nil {
			all[name] = map[string]int{}
		}
		all[name][strings.TrimPrefix(e.Type, "runtime.watchdog.")]++
	}
	return all
}
