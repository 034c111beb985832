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

// options are the parsed command line.
type options struct {
	config  stall.Config
	command []string
}

// A commandLine is the command line while it is parsed.
type commandLine struct {
	config                   stall.Config
	probe, terminal, onStall string
	interval                 time.Duration
	threshold                int
	graceInt, graceTerm      time.Duration
}

func (l *commandLine) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("guard", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.DurationVar(&l.config.NoOutput, "no-output", 0,
		"end the command when it prints nothing for this long (0: never)")
	flags.StringVar(&l.probe, "probe", "",
		"run the shell command `CMD` at each interval; it prints the state as one JSON object")
	flags.DurationVar(&l.interval, "probe-interval", stall.DefaultProbeInterval, "the time from one probe to the next")
	flags.IntVar(&l.threshold, "stall-threshold", stall.DefaultStallThreshold,
		"end the command when this many probes in a row saw the same, at least 2")
	flags.StringVar(&l.terminal, "terminal", "", "end the command when it prints a line that `REGEXP` matches")
	flags.StringVar(&l.onStall, "on-stall", string(stall.ActionInterrupt),
		"on a stall: interrupt, fail (SIGKILL at once) or ignore (only record it)")
	flags.DurationVar(&l.graceInt, "grace-int", stall.DefaultInterruptGrace, "wait this long after SIGINT")
	flags.DurationVar(&l.graceTerm, "grace-term", stall.DefaultTerminateGrace, "wait this long after SIGTERM")
	flags.DurationVar(&l.config.WallClock, "budget", 0, "end the command after this long in any case (0: never)")
	flags.StringVar(&l.config.Artifacts, "artifacts", "", "write files about a stall to `DIR`")
	flags.StringVar(&l.config.Step, "step", "command", "use `NAME` for the command in artifacts and events")
	flags.BoolVar(&l.config.KeepBackground, "keep-background", false,
		"do not end background processes of a command that ended by itself")
	return flags
}

// parse reads the command line. It reads nothing else: after an error nothing was done.
func parse(args []string) (options, error) {
	var l commandLine
	flags := l.flags()
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() == 0 {
		return options{}, errors.New("the command is missing; write it after the flags: guard -no-output 5m -- make test")
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := l.buildConfig(given); err != nil {
		return options{}, err
	}
	return options{config: l.config, command: flags.Args()}, nil
}

// buildConfig converts the flags to a config.
func (l *commandLine) buildConfig(given map[string]bool) error {
	if err := l.validate(given); err != nil {
		return err
	}
	if l.probe != "" {
		l.config.Probe = &stall.Probe{
			Command: []string{"sh", "-c", l.probe}, Interval: l.interval, StallThreshold: l.threshold,
		}
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

// grace converts a grace of 0, which would be the default in the config, to none.
func grace(d time.Duration) time.Duration {
	if d == 0 {
		return watchdog.None
	}
	return d
}

// validate refuses values that the config would take for a default, and flags without effect.
func (l *commandLine) validate(given map[string]bool) error {
	actions := []string{string(stall.ActionInterrupt), string(stall.ActionFail), string(stall.ActionIgnore)}
	switch {
	case l.config.NoOutput < 0 || l.config.WallClock < 0:
		return fmt.Errorf("-no-output %v, -budget %v: use positive durations, or 0 for none",
			l.config.NoOutput, l.config.WallClock)
	case l.graceInt < 0 || l.graceTerm < 0:
		return fmt.Errorf("-grace-int %v, -grace-term %v: use positive durations, or 0 for none", l.graceInt, l.graceTerm)
	case !slices.Contains(actions, l.onStall):
		return fmt.Errorf("-on-stall %q: use one of %s", l.onStall, strings.Join(actions, ", "))
	case l.probe == "" && (given["probe-interval"] || given["stall-threshold"]):
		return errors.New("-probe-interval and -stall-threshold need -probe")
	case l.probe != "":
		return l.validateProbe()
	}
	return nil
}

func (l *commandLine) validateProbe() error {
	switch {
	case l.interval <= 0:
		return fmt.Errorf("-probe-interval %v: use a positive duration", l.interval)
	case l.threshold < 2:
		return fmt.Errorf("-stall-threshold %d: use at least 2, because one probe alone shows no lack of change",
			l.threshold)
	}
	return nil
}

// usage returns the help text.
func usage() string {
	var l commandLine
	var text strings.Builder
	text.WriteString("Guard runs a command. When the command is stuck, " +
		"guard ends it and every process that it started.\n\n")
	text.WriteString("guard [FLAGS] -- COMMAND [ARG...]\n\n")
	flags := l.flags()
	flags.SetOutput(&text)
	flags.PrintDefaults()
	text.WriteString("\nExit status: the command's own, 128+N after a signal, 124 stuck or out of budget, " +
		"125 error of the guard, 126 not executable, 127 not found.\n")
	return text.String()
}
