package main

import (
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/loop/internal/model"
)

// A scenario is one way for a run to go.
type scenario struct {
	name, what string
	model      model.Character
	// tool and person are how long a tool call and a person's approval take; zero is no time to speak of, forever never.
	tool, person time.Duration
	want         ending
}

// An ending is how a run went: why it was stopped, empty where it was not, and what was asked of it on the way.
type ending struct {
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
		model: model.Character{Fault: model.Mute, Cure: model.Retried},
		want:  ending{directives: did(watchdog.DirectiveRetry)},
	},
	{
		name: "stall", what: "the stream goes silent in the middle, and not when it is asked for again",
		model: model.Character{Fault: model.Stall, Cure: model.Retried},
		want:  ending{directives: did(watchdog.DirectiveRetry)},
	},
	{
		name: "dead", what: "the stream goes silent every time",
		model: model.Character{Fault: model.Stall},
		want:  ending{watchdog.IdleExceeded, did(watchdog.DirectiveRetry, watchdog.DirectiveCancel)},
	},
	{
		name: "trickle", what: "the stream is slow and never silent: left alone",
		model: model.Character{Fault: model.Trickle},
	},
	{
		name: "heartbeat", what: "the stream is alive and says nothing, until another approach is tried",
		model: model.Character{Fault: model.Heartbeat, Cure: model.Approached},
		want:  ending{directives: did(watchdog.DirectiveUnstuck)},
	},
	{
		name: "repeat", what: "busy without progress: two statuses in turn, until another approach is tried",
		model: model.Character{Fault: model.Repeat, Cure: model.Approached},
		want:  ending{directives: did(watchdog.DirectiveUnstuck)},
	},
	{
		name: "stuck", what: "the same, and no approach helps",
		model: model.Character{Fault: model.Repeat},
		want:  ending{watchdog.NoProgressExceeded, did(watchdog.DirectiveUnstuck, watchdog.DirectiveCancel)},
	},
	{
		name: "slow-tool", what: "a tool is silent for longer than a stream may be: left alone",
		tool: time.Second,
	},
	{
		name: "hung-tool", what: "a tool never returns",
		tool: forever,
		want: ending{watchdog.HoldExceeded, did(watchdog.DirectiveCancel)},
	},
	{
		name: "approval", what: "a person takes longer than any silence may last: left alone",
		person: 2500 * time.Millisecond,
	},
	{
		name: "absent", what: "a person never comes; the wall clock still ends the run",
		person: forever,
		want:   ending{watchdog.WallClockExceeded, did(watchdog.DirectiveCancel)},
	},
}

func did(kinds ...watchdog.DirectiveKind) []watchdog.DirectiveKind { return kinds }

// is reports whether a run went that way.
func (e ending) is(other ending) bool {
	return e.stop == other.stop && slices.Equal(e.directives, other.directives)
}

// named are the scenarios of a name, none where there is none.
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
