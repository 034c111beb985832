package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/converge"
)

// A report prints all attempts and has the store of their events.
type report struct {
	out   io.Writer
	opts  options
	store *watchdog.Memory
}

// say prints a line. A write error must not end an attempt.
func (r *report) say(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format+"\n", args...) }

func (r *report) begin() {
	r.say("%v, at %s", r.opts.resource, r.opts.server)
	r.say("an attempt ends when %d probes in a row, %v apart, see the same", r.opts.threshold, r.opts.interval)
}

// ready reports that an attempt found the resource ready.
func (r *report) ready(a attempt) {
	r.say("\nREADY in attempt %d, after %.2fs: %v", a.n, a.result.Elapsed.Seconds(), r.opts.resource)
}

func (r *report) givenUp(a attempt) {
	r.say("\nGIVEN UP after attempt %d: %s", a.n, strings.Join(a.trip.Fingerprints, " "))
}

// stalled reports an attempt that was ended, with its events in the store.
func (r *report) stalled(ctx context.Context, a attempt, d converge.Decision) error {
	r.say("\nattempt %d", a.n)
	r.say("  tripped       %s after %.2fs: %s", a.trip.Kind, a.result.Elapsed.Seconds(), a.trip.Reason)
	r.say("  the probe     %s", a.trip.Summary)
	r.say("  fingerprints  %s", strings.Join(a.trip.Fingerprints, " "))
	r.say("  ended by      %v; until then the wait had printed %d lines", a.result.EndedBy, a.lines)
	if a.result.Artifacts != "" {
		r.say("  artifacts     %s", a.result.Artifacts)
	}
	events, err := r.store.Read(ctx, watchdog.AggregateType, a.result.RunID)
	if err != nil {
		return fmt.Errorf("read the events of attempt %d: %w", a.n, err)
	}
	for _, e := range events {
		if err := r.event(e); err != nil {
			return err
		}
	}
	r.say("  decision      %s", d.Action)
	for line := range strings.Lines(d.Text()) {
		r.say("    | %s", strings.TrimSuffix(line, "\n"))
	}
	return nil
}

func (r *report) event(e watchdog.Event) error {
	var p struct {
		Reason string `json:"reason"`
		Parent string `json:"parent"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return fmt.Errorf("read event %s: %w", e.ID, err)
	}
	r.say("  event         %s of %s, reason %s, parent %s", e.Type, e.AggregateID, p.Reason, p.Parent)
	return nil
}
