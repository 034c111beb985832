package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
)

// defaultStep names the command where nothing else does.
const defaultStep = "command"

// guards are what guards a command: as the configuration file and the environment say, and over them the flags.
type guards struct {
	command stall.Config         // when it is stuck
	keeper  session.KeeperConfig // how the run's row in a store is kept
}

func (c *runCmd) config(common *Common, model *kong.Application) (*guards, error) {
	g, err := c.limits(common, model)
	if err != nil {
		return nil, err
	}
	if c.ID, err = filledID(c.ID, g.keeper.Host, time.Now()); err != nil {
		return nil, err
	}
	if err := c.apply(&g.command); err != nil {
		return nil, err
	}
	return g, nil
}

// filledID is an ID with the time and the host for their names in it: safe in a file's name, and sorted by the time.
func filledID(id, host string, now time.Time) (string, error) {
	if host == "" && strings.Contains(id, "{host}") {
		var err error
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("--id: {host}: %w", err)
		}
	}
	filled := strings.NewReplacer("{time}", now.UTC().Format("20060102T150405Z"), "{host}", host).Replace(id)
	if _, rest, opens := strings.Cut(filled, "{"); opens {
		if name, _, closes := strings.Cut(rest, "}"); closes {
			return "", fmt.Errorf("--id: there is no {%s}; write {time} or {host}", name)
		}
	}
	return filled, nil
}

// limits returns what the configuration file and the environment say. Where neither says anything, nothing is read.
func (c *runCmd) limits(common *Common, model *kong.Application) (*guards, error) {
	if common.Config == "" && !slices.ContainsFunc(os.Environ(), mayBeFlag) {
		return &guards{}, nil
	}
	limits, err := common.limits(model)
	if err != nil {
		return nil, err
	}
	g := &guards{command: limits.Stall, keeper: limits.Keeper}
	if steps := limits.Steps(); len(steps) > 0 && c.Step != "" {
		if !slices.Contains(steps, c.Step) {
			return nil, fmt.Errorf("--step %q: %s has the steps %s; name one of them", c.Step, common.Config,
				strings.Join(steps, ", "))
		}
		g.command = limits.Step(c.Step).Stall
	}
	g.command.WallClock = max(limits.Budget.WallClock, 0) // one that is off is negative
	return g, nil
}

func (c *runCmd) apply(cfg *stall.Config) error {
	if c.Probe != "" {
		cfg.Probe = &stall.Probe{Command: shell(c.Probe)}
	}
	if c.AlsoEnd != "" {
		cfg.AlsoEnd = &stall.AlsoEnd{Command: shell(c.AlsoEnd)}
	}
	if err := c.check(cfg); err != nil {
		return err
	}
	set(&cfg.NoOutput, c.NoOutput)
	set(&cfg.ActivitySource, c.Activity)
	set(&cfg.WallClock, c.WallClock)
	set(&cfg.OnStall, c.OnStall)
	set(&cfg.OnTerminal, c.OnTerminal)
	set(&cfg.RecordTimeout, c.RecordTimeout)
	cfg.FileItself = c.FileItself
	cfg.KeepBackground = cfg.KeepBackground || c.KeepBackground
	c.applyProbe(cfg.Probe)
	if cfg.AlsoEnd != nil {
		set(&cfg.AlsoEnd.Timeout, c.AlsoEndTimeout)
	}
	c.applyNames(cfg)
	return cmp.Or(c.applyGrace(cfg), c.applyPatterns(cfg))
}

func (c *runCmd) applyGrace(cfg *stall.Config) error {
	if c.Signal == nil && c.GraceInt == nil && c.GraceTerm == nil {
		return nil
	}
	first, terminate := steps(cfg.Grace)
	set(&first.Signal, c.Signal)
	set(&first.Grace, c.GraceInt)
	set(&terminate.Grace, c.GraceTerm)
	switch first.Signal {
	case syscall.SIGKILL:
		cfg.Grace = []stall.Step{{Signal: syscall.SIGKILL}}
	case syscall.SIGTERM:
		cfg.Grace = []stall.Step{terminate}
	default:
		cfg.Grace = []stall.Step{first, terminate}
	}
	var unsent string
	switch {
	case c.GraceInt != nil && len(cfg.Grace) == 1:
		unsent = "--grace-int"
	case c.GraceTerm != nil && first.Signal == syscall.SIGKILL:
		unsent = "--grace-term"
	default:
		return nil
	}
	return fmt.Errorf("%s is the time after a signal that is not sent, as %s is the first; leave it out",
		unsent, signame.Name(first.Signal))
}

// steps returns the first signal and SIGTERM, as a file has them: both, or one of SIGTERM and SIGKILL alone.
func steps(given []stall.Step) (first, terminate stall.Step) {
	first = stall.Step{Signal: syscall.SIGINT, Grace: stall.DefaultInterruptGrace}
	terminate = stall.Step{Signal: syscall.SIGTERM, Grace: stall.DefaultTerminateGrace}
	switch {
	case len(given) == 2:
		return given[0], given[1]
	case len(given) == 1 && given[0].Signal == syscall.SIGTERM:
		terminate = given[0]
	}
	if len(given) == 1 {
		first.Signal = given[0].Signal
	}
	return first, terminate
}

func (c *runCmd) applyProbe(probe *stall.Probe) {
	if probe == nil {
		return
	}
	set(&probe.Interval, c.ProbeInterval)
	set(&probe.Timeout, c.ProbeTimeout)
	set(&probe.StallThreshold, c.StallThreshold)
	set(&probe.OnError, c.OnProbeError)
	set(&probe.ErrorThreshold, c.ProbeErrorThreshold)
	probe.AnyExit = probe.AnyExit || c.ProbeAnyExit
	probe.Publish = probe.Publish || c.ProbePublish
}

func (c *runCmd) applyNames(cfg *stall.Config) {
	cfg.Step = cmp.Or(c.Step, defaultStep)
	cfg.FingerprintPrefix = cmp.Or(c.FingerprintPrefix, cfg.FingerprintPrefix)
	cfg.Artifacts, cfg.CheckID, cfg.Workflow = c.Artifacts, c.CheckID, c.Workflow
	cfg.Iteration, cfg.StepLog, cfg.RunID = c.Iteration, c.StepLog, c.ID
}

func (c *runCmd) applyPatterns(cfg *stall.Config) error {
	if len(c.Terminal) == 0 {
		return nil
	}
	cfg.Terminal = nil
	for _, text := range c.Terminal {
		pattern, err := regexp.Compile(text)
		if err != nil {
			return fmt.Errorf("--terminal: %w", err)
		}
		cfg.Terminal = append(cfg.Terminal, pattern)
	}
	return nil
}

// shell returns the words that have a shell run a command.
func shell(command string) []string { return []string{"sh", "-c", command} }
