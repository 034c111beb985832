package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// options are the command line.
type options struct {
	config  stall.Config
	command []string
}

// A line is the command line as it is read.
type line struct {
	config                   stall.Config
	probe, terminal, onStall string
	interval                 time.Duration
	threshold                int
	graceInt, graceTerm      time.Duration
}

func (l *line) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("guard", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.DurationVar(&l.config.NoOutput, "no-output", 0, "end the command when it printed nothing for that long (0: never)")
	flags.StringVar(&l.probe, "probe", "", "run the shell command `CMD` at every interval; it prints one JSON object about the state")
	flags.DurationVar(&l.interval, "probe-interval", stall.DefaultProbeInterval, "the time from one probe to the next")
	flags.IntVar(&l.threshold, "stall-threshold", stall.DefaultStallThreshold, "end the command when that many probes in a row saw the same, at least 2")
	flags.StringVar(&l.terminal, "terminal", "", "end the command when it prints a line that `REGEXP` matches")
	flags.StringVar(&l.onStall, "on-stall", string(stall.ActionInterrupt), "what to do then: interrupt, fail (SIGKILL at once) or ignore (only record it)")
	flags.DurationVar(&l.graceInt, "grace-int", stall.DefaultInterruptGrace, "how long a SIGINT may take")
	flags.DurationVar(&l.graceTerm, "grace-term", stall.DefaultTerminateGrace, "how long a SIGTERM may take")
	flags.DurationVar(&l.config.WallClock, "budget", 0, "end the command after that long, whatever it does (0: never)")
	flags.StringVar(&l.config.Artifacts, "artifacts", "", "describe a trip in files under `DIR`")
	flags.StringVar(&l.config.Step, "step", "command", "the `NAME` of the command in artifacts and events")
	flags.BoolVar(&l.config.KeepBackground, "keep-background", false, "leave alone what a command that ended by itself left running")
	return flags
}

// parse reads the command line. It looks at nothing else, so that an error means that nothing was done.
func parse(args []string) (options, error) {
	var l line
	flags := l.flags()
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() == 0 {
		return options{}, errors.New("there is no command; give it after the flags: guard -no-output 5m -- make test")
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := l.complete(given); err != nil {
		return options{}, err
	}
	return options{config: l.config, command: flags.Args()}, nil
}

// complete makes the flags a config.
func (l *line) complete(given map[string]bool) error {
	if err := l.needs(given); err != nil {
		return err
	}
	if l.probe != "" {
		l.config.Probe = &stall.Probe{Command: []string{"sh", "-c", l.probe}, Interval: l.interval, StallThreshold: l.threshold}
	}
	if l.terminal != "" {
		pattern, err := regexp.Compile(l.terminal)
		if err != nil {
			return fmt.Errorf("-terminal: %w", err)
		}
		l.config.Terminal = []*regexp.Regexp{pattern}
	}
	l.config.OnStall, l.config.OnTerminal = stall.TripAction(l.onStall), stall.TripAction(l.onStall)
	l.config.Grace = stall.Grace{Interrupt: grace(l.graceInt), Terminate: grace(l.graceTerm)}
	return nil
}

// grace is a grace as the config has it, where 0 would be the default.
func grace(d time.Duration) time.Duration {
	if d == 0 {
		return watchdog.None
	}
	return d
}

// needs refuses what the config would take for something else, or what would do nothing.
func (l *line) needs(given map[string]bool) error {
	actions := []string{string(stall.ActionInterrupt), string(stall.ActionFail), string(stall.ActionIgnore)}
	switch {
	case l.config.NoOutput < 0 || l.config.WallClock < 0:
		return fmt.Errorf("-no-output %v, -budget %v: use positive durations, or 0 for none", l.config.NoOutput, l.config.WallClock)
	case l.graceInt < 0 || l.graceTerm < 0:
		return fmt.Errorf("-grace-int %v, -grace-term %v: use positive durations, or 0 for none", l.graceInt, l.graceTerm)
	case !slices.Contains(actions, l.onStall):
		return fmt.Errorf("-on-stall %q: use one of %s", l.onStall, strings.Join(actions, ", "))
	case l.probe == "" && (given["probe-interval"] || given["stall-threshold"]):
		return errors.New("-probe-interval and -stall-threshold are about a probe; give one with -probe")
	case l.probe != "":
		return l.needsOfProbe()
	}
	return nil
}

func (l *line) needsOfProbe() error {
	switch {
	case l.interval <= 0:
		return fmt.Errorf("-probe-interval %v: use a positive duration", l.interval)
	case l.threshold < 2:
		return fmt.Errorf("-stall-threshold %d: use at least 2, because one probe alone shows no lack of change", l.threshold)
	}
	return nil
}

// usage is the help text.
func usage() string {
	var l line
	var text strings.Builder
	text.WriteString("Guard runs a command and ends it when it is stuck, with everything that it started.\n\nguard [FLAGS] -- COMMAND [ARG...]\n\n")
	flags := l.flags()
	flags.SetOutput(&text)
	flags.PrintDefaults()
	text.WriteString("\nExit status: the command's own, 128+N after a signal, 124 it was stuck or its budget used up, 125 error of the guard, 126 not executable, 127 not found.\n")
	return text.String()
}
