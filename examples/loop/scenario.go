package main

import (
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/loop/internal/model"
)

// A scenario is one way in which a run can go.
type scenario struct {
	name, what string
	model      model.Character
	// tool and person are how long a tool call and a person's approval take; zero is instant, forever never ends.
	tool, person time.Duration
	want         outcome
}

// An outcome is how a run ended: the code of its stop, empty without one, and its directives.
type outcome struct {
	stop       watchdog.StopReason
	directives []watchdog.DirectiveKind
}

// forever is longer than any run.
const forever = 24 * time.Hour

var scenarios = []scenario{
	{
		name: "healthy", what: "streams, calls tools and is approved",
	},
	{
		name: "mute", what: "the model does not answer a request, and answers the next",
		model: model.Character{Fault: model.Mute, Recovery: model.OnRetry},
		want:  outcome{directives: directives(watchdog.DirectiveRetry)},
	},
	{
		name: "stall", what: "the stream goes silent in the middle, and not when it is asked for again",
		model: model.Character{Fault: model.Stall, Recovery: model.OnRetry},
		want:  outcome{directives: directives(watchdog.DirectiveRetry)},
	},
	{
		name: "dead", what: "the stream goes silent every time",
		model: model.Character{Fault: model.Stall},
		want:  outcome{watchdog.IdleExceeded, directives(watchdog.DirectiveRetry, watchdog.DirectiveCancel)},
	},
	{
		name: "trickle", what: "the stream is slow and never silent: left alone",
		model: model.Character{Fault: model.Trickle},
	},
	{
		name: "heartbeat", what: "the stream is alive and says nothing, until another approach is tried",
		model: model.Character{Fault: model.Heartbeat, Recovery: model.OnNewApproach},
		want:  outcome{directives: directives(watchdog.DirectiveUnstuck)},
	},
	{
		name: "repeat", what: "busy without progress: two statuses in turn, until another approach is tried",
		model: model.Character{Fault: model.Repeat, Recovery: model.OnNewApproach},
		want:  outcome{directives: directives(watchdog.DirectiveUnstuck)},
	},
	{
		name: "stuck", what: "the same, and no approach helps",
		model: model.Character{Fault: model.Repeat},
		want:  outcome{watchdog.NoProgressExceeded, directives(watchdog.DirectiveUnstuck, watchdog.DirectiveCancel)},
	},
	{
		name: "slow-tool", what: "a tool is silent for longer than a stream may be: left alone",
		tool: time.Second,
	},
	{
		name: "hung-tool", what: "a tool never returns",
		tool: forever,
		want: outcome{watchdog.HoldExceeded, directives(watchdog.DirectiveCancel)},
	},
	{
		name: "approval", what: "a person takes longer than any silence may last: left alone",
		person: 2500 * time.Millisecond,
	},
	{
		name: "late", what: "a person takes so long that only the reserve is left: the agent returns what it has",
		person: 4200 * time.Millisecond,
		want:   outcome{directives: directives(watchdog.DirectiveWrapUp)},
	},
	{
		name: "absent", what: "a person never comes; the wall clock still ends the run",
		person: forever,
		want:   outcome{watchdog.WallClockExceeded, directives(watchdog.DirectiveWrapUp, watchdog.DirectiveCancel)},
	},
	{
		name: "cap", what: "three sub-agents spend from one cap, and go on when they are to wrap up: it is never overspent",
		model: model.Character{Fault: model.Delegate},
		want:  outcome{watchdog.CostExceeded, directives(watchdog.DirectiveWrapUp, watchdog.DirectiveCancel)},
	},
	{
		name: "cycle", what: "three tools in turn, whose answers differ only in spaces and elapsed times",
		model: model.Character{Fault: model.Cycle},
		want:  outcome{watchdog.LoopDetected, directives(watchdog.DirectiveUnstuck, watchdog.DirectiveCancel)},
	},
	{
		name: "batch", what: "two hundred edits that all answer ok: left alone",
		model: model.Character{Fault: model.Batch},
	},
}

func directives(kinds ...watchdog.DirectiveKind) []watchdog.DirectiveKind { return kinds }

// equal reports whether both outcomes are the same.
func (e outcome) equal(other outcome) bool {
	return e.stop == other.stop && slices.Equal(e.directives, other.directives)
}

// named returns the scenarios with this name, nil if there is none.
func named(name string) []scenario {
	if name == all {
		return scenarios
	}
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return scenarios[i : i+1]
}

func names() string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}
