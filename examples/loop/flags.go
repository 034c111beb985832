package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/seed62658d38/watchdog/examples/internal/help"
)

// all is the name of all scenarios together.
const all = "all"

// options are the parsed command line.
type options struct {
	scenario, state string
	scenarios       []scenario
	events, json    bool
}

// parse reads the command line. It reads nothing else: after an error nothing was done.
func parse(args []string) (options, error) {
	var o options
	flags := o.flags()
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; use flags only", flags.Arg(0))
	case o.events && o.json:
		return o, fmt.Errorf("-json prints the events already; leave out -events")
	}
	if o.scenarios = named(o.scenario); o.scenarios == nil {
		return o, fmt.Errorf("-scenario %q does not exist; use %s or %s", o.scenario, all, names())
	}
	return o, nil
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("loop", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.scenario, "scenario", all, "play the scenario `NAME`, or all")
	flags.StringVar(&o.state, "state", "", "keep the events in events.db in `DIR` (default: in memory only)")
	flags.BoolVar(&o.events, "events", false, "print the stored events of each run, one JSON object a line")
	flags.BoolVar(&o.json, "json", false,
		"print the results, with all events, as one JSON array, and the progress on standard error")
	return flags
}

// usage returns the help text.
func usage() string {
	var o options
	var more strings.Builder
	more.WriteString("The scenarios:\n")
	for _, s := range scenarios {
		fmt.Fprintf(&more, "  %-10s %s\n", s.name, s.what)
	}
	return help.Text{
		What:   "Loop runs an agent loop against a model that goes wrong, under the limits of a watchdog.",
		Uses:   []help.Use{{Line: "loop [FLAGS]", Flags: o.flags()}},
		More:   more.String(),
		Status: "0 every run ended as it should, 1 one did not, 2 wrong command line.",
	}.String()
}
