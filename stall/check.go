package stall

import (
	"cmp"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// maxTail is the largest [Tail].
const maxTail = 1 << 20

// check returns the first flaw of the config.
func (c *Config) check() error {
	if err := artifact.CheckStep(c.Step); err != nil {
		return fmt.Errorf("%w stall config: %w", watchdog.ErrInvalid, err)
	}
	for _, length := range []struct {
		field string
		value time.Duration
	}{{"NoOutput", c.NoOutput}, {"WallClock", c.WallClock}, {"RecordTimeout", c.RecordTimeout}} {
		if length.value < 0 {
			return flaw("%s is %v; use a positive duration, or 0 for none", length.field, length.value)
		}
	}
	if c.Grace.Interrupt < watchdog.None || c.Grace.Terminate < watchdog.None {
		return flaw("Grace is %v and %v; use positive durations, 0 for the defaults, or watchdog.None for none", c.Grace.Interrupt, c.Grace.Terminate)
	}
	return cmp.Or(c.checkWords(), c.Probe.check(), c.checkTail())
}

func flaw(format string, args ...any) error {
	return fmt.Errorf("%w stall config: %s", watchdog.ErrInvalid, fmt.Sprintf(format, args...))
}

func (c *Config) checkWords() error {
	switch c.ActivitySource {
	case "", ActivityAny, ActivityStdout, ActivityStderr:
	default:
		return flaw("ActivitySource is %q; use ActivityAny, ActivityStdout or ActivityStderr", c.ActivitySource)
	}
	for _, action := range []TripAction{c.OnStall, c.OnTerminal} {
		switch action {
		case "", ActionInterrupt, ActionFail, ActionIgnore:
		default:
			return flaw("the action %q is none; use ActionInterrupt, ActionFail or ActionIgnore", action)
		}
	}
	if p := c.FingerprintPrefix; p != "" && (!artifact.ValidFingerprint(p) || strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/")) {
		return flaw("FingerprintPrefix is %q; use letters, digits and ._:/@=+-, and no slash at either end", p)
	}
	for i, pattern := range c.Terminal {
		if pattern == nil {
			return flaw("pattern %d of Terminal is nil", i+1)
		}
	}
	return nil
}

func (c *Config) checkTail() error {
	switch t := c.Tail; {
	case t == nil:
		return nil
	case t.Bytes < 1 || t.Bytes > maxTail:
		return flaw("Tail.Bytes is %d; use 1 to %d", t.Bytes, maxTail)
	case t.Redact == nil:
		return flaw("Tail.Redact is not set: what a command prints can hold secrets; package redact, a module of its own, removes them")
	case c.Artifacts == "":
		return flaw("Tail is set and Artifacts is not: name the folder that it is to be written to")
	}
	return nil
}

func (p *Probe) check() error {
	switch {
	case p == nil:
		return nil
	case len(p.Command) == 0 || p.Command[0] == "":
		return flaw("Probe.Command is empty; give the probe's program and its arguments")
	case p.Interval < 0 || p.Timeout < 0:
		return flaw("the probe's Interval is %v and its Timeout %v; use positive durations, or 0 for the defaults", p.Interval, p.Timeout)
	case p.StallThreshold < 0 || p.StallThreshold == 1:
		return flaw("Probe.StallThreshold is %d; use at least 2, because one probe alone shows no lack of change, or 0 for %d", p.StallThreshold, DefaultStallThreshold)
	case p.ErrorThreshold < 0:
		return flaw("Probe.ErrorThreshold is %d; use at least 1, or 0 for %d", p.ErrorThreshold, DefaultProbeErrorThreshold)
	}
	switch p.OnError {
	case "", ErrorIgnored, ErrorStall, ErrorTerminal:
		return nil
	default:
		return flaw("Probe.OnError is %q; use ErrorIgnored, ErrorStall or ErrorTerminal", p.OnError)
	}
}

// complete is the config with its defaults in place of zero values.
func (c Config) complete() Config {
	c.ActivitySource = cmp.Or(c.ActivitySource, ActivityAny)
	c.OnStall, c.OnTerminal = cmp.Or(c.OnStall, ActionInterrupt), cmp.Or(c.OnTerminal, ActionInterrupt)
	c.RecordTimeout = cmp.Or(c.RecordTimeout, watchdog.DefaultRecordTimeout)
	c.Grace.Interrupt = max(cmp.Or(c.Grace.Interrupt, DefaultInterruptGrace), 0)
	c.Grace.Terminate = max(cmp.Or(c.Grace.Terminate, DefaultTerminateGrace), 0)
	if c.Probe != nil {
		p := *c.Probe
		p.Interval, p.Timeout = cmp.Or(p.Interval, DefaultProbeInterval), cmp.Or(p.Timeout, DefaultProbeTimeout)
		p.StallThreshold = cmp.Or(p.StallThreshold, DefaultStallThreshold)
		p.ErrorThreshold = cmp.Or(p.ErrorThreshold, DefaultProbeErrorThreshold)
		c.Probe = &p
	}
	return c
}

// harmless reports that nothing of the config can trip.
func (c *Config) harmless() bool { return c.NoOutput == 0 && c.Probe == nil && len(c.Terminal) == 0 }

// action is what a trip of the kind does.
func (c *Config) action(k TripKind) TripAction {
	if k == KindTerminal {
		return c.OnTerminal
	}
	return c.OnStall
}

// checkCommand returns what keeps a command from being run.
func checkCommand(cmd *exec.Cmd) error {
	switch {
	case cmd == nil:
		return fmt.Errorf("%w command: it is nil", watchdog.ErrInvalid)
	case cmd.Err != nil:
		return cmd.Err
	case cmd.Process != nil:
		return fmt.Errorf("%w command: it was started already; make a new one for each run", watchdog.ErrInvalid)
	case cmd.Cancel != nil:
		return fmt.Errorf("%w command: it was made by exec.CommandContext; give the context to Run and make the command by exec.Command", watchdog.ErrInvalid)
	case cmd.WaitDelay != 0:
		return fmt.Errorf("%w command: its WaitDelay is set; use Config.Grace", watchdog.ErrInvalid)
	case len(cmd.ExtraFiles) > math.MaxUint8/2:
		return fmt.Errorf("%w command: it has %d ExtraFiles, at most %d can be passed on", watchdog.ErrInvalid, len(cmd.ExtraFiles), math.MaxUint8/2)
	}
	return nil
}
