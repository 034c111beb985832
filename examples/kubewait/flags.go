package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/examples/internal/help"
)

// options are the parsed command line.
type options struct {
	resource     resource
	appearsAfter time.Duration
	interval     time.Duration
	threshold    int
	attempts     int
	artifacts    string
	server       string // of the wait and the probe
}

// parse reads the command line of a role, "" for the host. It reads nothing else: after an error nothing was done.
func parse(role string, args []string) (options, error) {
	o := options{interval: defaultInterval, threshold: defaultThreshold}
	flags := o.flags(role)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; use flags only", flags.Arg(0))
	}
	return o, cmp.Or(o.check(role), o.resource.check())
}

// check refuses invalid values. Flags that the role does not have are at their defaults.
func (o *options) check(role string) error {
	switch {
	case o.interval <= 0:
		return fmt.Errorf("-interval %v: use a positive duration", o.interval)
	case role != "" && o.server == "":
		return errors.New("-server is missing; write the API's URL, such as http://127.0.0.1:8001 for kubectl proxy")
	case o.appearsAfter < 0:
		return fmt.Errorf("-appears-after %v: use a positive duration, or 0 for never", o.appearsAfter)
	case o.threshold < 2:
		return fmt.Errorf("-threshold %d: use at least 2, because one probe alone shows no lack of change", o.threshold)
	case o.attempts < 0:
		return fmt.Errorf("-attempts %d: use a positive number, or 0 for no limit", o.attempts)
	}
	return nil
}

// The defaults.
const (
	defaultInterval  = 150 * time.Millisecond
	defaultThreshold = 3
)

func (o *options) flags(role string) *flag.FlagSet {
	flags := flag.NewFlagSet("kubewait", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.resource.kind, "kind", "crd", "wait for a `KIND` of resource: crd or deployment")
	flags.StringVar(&o.resource.name, "name", "widgets.example.com", "wait for the resource `NAME`")
	if role != probeRole {
		flags.DurationVar(&o.interval, "interval", defaultInterval,
			"the time between two probes, and between two requests of the wait")
	}
	if role != "" {
		flags.StringVar(&o.server, "server", "", "ask the API at `URL`")
		return flags
	}
	flags.DurationVar(&o.appearsAfter, "appears-after", 0, "create the resource after this long (0: never)")
	flags.IntVar(&o.threshold, "threshold", defaultThreshold,
		"end an attempt when this many probes in a row saw the same, at least 2")
	flags.IntVar(&o.attempts, "attempts", 0, "make at most this many attempts (0: until it gives up)")
	flags.StringVar(&o.artifacts, "artifacts", "", "write files about the ended attempts to `DIR`")
	return flags
}

// usage returns the help text.
func usage() string {
	var uses []help.Use
	for _, role := range []string{"", waitRole, probeRole} {
		var o options
		uses = append(uses, help.Use{Line: strings.TrimSpace("kubewait "+role) + " [FLAGS]", Flags: o.flags(role)})
	}
	return help.Text{
		What: "Kubewait waits for a resource of a small Kubernetes API that it starts itself. " +
			"A probe ends a wait that makes no progress.",
		Uses:   uses,
		Status: "0 the resource is ready, 3 given up, 2 wrong command line, 1 everything else.",
	}.String()
}
