package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
	"github.com/seed62658d38/watchdog/examples/internal/program"
)

// options are the parsed command line.
type options struct {
	state, project, config, session, hang string
	// budget is nil without the flag; 0 is no limit, as in files and in the environment.
	budget               *time.Duration
	resume, events, json bool
}

// attaches reports whether the options refer to an existing session.
func (o options) attaches() bool { return o.session != "" || o.resume || o.events }

// parse reads the command line. It reads nothing else: after an error nothing was done.
func parse(args []string) (options, error) {
	var o options
	flags := o.flags()
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; use flags only", flags.Arg(0))
	}
	var err error
	flags.Visit(func(f *flag.Flag) { err = errors.Join(err, o.check(f)) })
	return o, err
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("autosession", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.state, "state", "", "keep sessions in `DIR` (default: .watchdog in the project, "+
		"or a printed temporary directory for the built-in demo)")
	flags.StringVar(&o.project, "project", "", "work on the Go project in `DIR` (default: the built-in demo)")
	flags.StringVar(&o.config, "config", "", "read limits from the YAML `FILE`; the environment overrides it")
	flags.Func("budget", "let the session run for `DURATION`, such as 90s or 4h; 0 is no limit; "+
		"overrides file and environment", o.setBudget)
	flags.StringVar(&o.session, "session", "", "attach to the session `ID` and continue its window")
	flags.BoolVar(&o.resume, "resume", false,
		"continue a blocked session, or run a complete one again, in a fresh window; without -session, the last one")
	flags.StringVar(&o.hang, "hang", "", "make `PHASE` hang and ignore interrupts; one of "+phaseNames())
	flags.BoolVar(&o.events, "events", false, "print the session's events, one JSON object a line, and do nothing else")
	flags.BoolVar(&o.json, "json", false, "print the result as one JSON object, and progress on standard error")
	return flags
}

func (o *options) setBudget(text string) error {
	budget, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("write a duration such as 90s or 4h, or 0 for no limit")
	case budget < 0:
		return errors.New("it is negative; write 0 for no limit")
	}
	o.budget = &budget
	return nil
}

// check refuses a flag with an invalid value, and one that -events would ignore.
func (o *options) check(f *flag.Flag) error {
	switch {
	case o.events && !slices.Contains([]string{"events", "state", "session"}, f.Name):
		return fmt.Errorf("-events prints events and does nothing else; leave out -%s", f.Name)
	case f.Name != "budget" && f.Value.String() == "":
		return fmt.Errorf("-%s is empty", f.Name)
	case f.Name == "session" && !state.ValidID(o.session):
		return fmt.Errorf("-session %q is not a valid ID: use at most 36 letters, digits, dots, dashes and underscores",
			o.session)
	case f.Name == "hang" && !isPhase(o.hang):
		return fmt.Errorf("-hang %q is not a phase; use one of %s", o.hang, phaseNames())
	}
	return nil
}

// usage returns the help text.
func usage() string {
	var o options
	return program.Help{
		What:   "Autosession runs the phases " + phaseNames() + " over a Go project, within a wall-clock budget.",
		Use:    "autosession [FLAGS]",
		Flags:  o.flags(),
		Status: "0 complete, 3 blocked, 1 error, 2 wrong command line.",
	}.String()
}
