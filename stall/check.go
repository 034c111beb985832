package stall

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/tty"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// maxTail is the largest Bytes of a [Tail].
const maxTail = 1 << 20

// check returns an error for the first field that cannot be used.
func (c *Config) check() error {
	if err := artifact.CheckStep(c.Step); err != nil {
		return fmt.Errorf("%w stall config: %w", watchdog.ErrInvalid, err)
	}
	for _, length := range []struct {
		field string
		value time.Duration
		zero  string
	}{
		{"NoOutput", c.NoOutput, "none"}, {"WallClock", c.WallClock, "none"},
		{"RecordTimeout", c.RecordTimeout, watchdog.DefaultRecordTimeout.String()},
	} {
		if length.value < 0 {
			return invalid("%s is %v; use a positive duration, or 0 for %s", length.field, length.value, length.zero)
		}
	}
	if c.TTY && !tty.Supported {
		return invalid("TTY is set, but a command can have the host's terminal on Linux only; leave it off")
	}
	return cmp.Or(checkSteps(c.Grace), c.checkNames(), c.Probe.check(), c.AlsoEnd.check(), c.checkTail())
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w stall config: %s", watchdog.ErrInvalid, fmt.Sprintf(format, args...))
}

func (c *Config) checkNames() error {
	switch c.ActivitySource {
	case "", ActivityAny, ActivityStdout, ActivityStderr:
	default:
		return invalid("ActivitySource is %q; use ActivityAny, ActivityStdout or ActivityStderr", c.ActivitySource)
	}
	for _, action := range []TripAction{c.OnStall, c.OnTerminal} {
		switch action {
		case "", ActionInterrupt, ActionFail, ActionIgnore:
		default:
			return invalid("there is no action %q; use ActionInterrupt, ActionFail or ActionIgnore", action)
		}
	}
	if p := c.FingerprintPrefix; p != "" && (!artifact.ValidFingerprint(p) || strings.Trim(p, "/") != p) {
		return invalid("FingerprintPrefix is %q; use letters, digits and ._:/@=+-, and no slash at either end", p)
	}
	for i, pattern := range c.Terminal {
		if pattern == nil {
			return invalid("pattern %d of Terminal is nil", i+1)
		}
	}
	return nil
}

func (c *Config) checkTail() error {
	switch t := c.Tail; {
	case t == nil:
		return nil
	case t.Bytes < 1 || t.Bytes > maxTail:
		return invalid("Tail.Bytes is %d; use 1 to %d", t.Bytes, maxTail)
	case t.Redact == nil:
		return invalid("Tail.Redact is not set; output can hold secrets, which package redact, a module of its own, removes")
	case c.Artifacts == "":
		return invalid("Tail is set and Artifacts is not; set Artifacts to the folder for the tail")
	}
	return nil
}

func (p *Probe) check() error {
	switch {
	case p == nil:
		return nil
	case len(p.Command) == 0 || p.Command[0] == "":
		return invalid("Probe.Command is empty; set it to the probe's program and its arguments")
	case p.Interval < 0 || p.Timeout < 0:
		return invalid("Probe.Interval is %v and Probe.Timeout is %v; use positive durations, or 0 for the defaults",
			p.Interval, p.Timeout)
	case p.StallThreshold < 0 || p.StallThreshold == 1:
		return invalid("Probe.StallThreshold is %d; use at least 2, because one probe alone cannot show a lack of change, "+
			"or 0 for %d", p.StallThreshold, DefaultStallThreshold)
	case p.ErrorThreshold < 0:
		return invalid("Probe.ErrorThreshold is %d; use at least 1, or 0 for %d",
			p.ErrorThreshold, DefaultProbeErrorThreshold)
	}
	switch p.OnError {
	case "", ErrorIgnored, ErrorStall, ErrorTerminal:
		return nil
	default:
		return invalid("Probe.OnError is %q; use ErrorIgnored, ErrorStall or ErrorTerminal", p.OnError)
	}
}

// complete returns the config with its defaults in place of zero values.
func (c Config) complete() Config {
	c.ActivitySource = cmp.Or(c.ActivitySource, ActivityAny)
	c.OnStall, c.OnTerminal = cmp.Or(c.OnStall, ActionInterrupt), cmp.Or(c.OnTerminal, ActionInterrupt)
	c.RecordTimeout = cmp.Or(c.RecordTimeout, watchdog.DefaultRecordTimeout)
	if len(c.Grace) == 0 {
		c.Grace = []Step{{syscall.SIGINT, DefaultInterruptGrace}, {syscall.SIGTERM, DefaultTerminateGrace}}
	}
	if c.Probe != nil {
		p := *c.Probe
		p.Interval, p.Timeout = cmp.Or(p.Interval, DefaultProbeInterval), cmp.Or(p.Timeout, DefaultProbeTimeout)
		p.StallThreshold = cmp.Or(p.StallThreshold, DefaultStallThreshold)
		p.ErrorThreshold = cmp.Or(p.ErrorThreshold, DefaultProbeErrorThreshold)
		c.Probe = &p
	}
	if c.AlsoEnd != nil {
		a := *c.AlsoEnd
		a.Timeout = cmp.Or(a.Timeout, DefaultAlsoEndTimeout)
		c.AlsoEnd = &a
	}
	return c
}

// limit names the first field by which the sentinel itself can end the command, or is empty if there is none.
func (c *Config) limit() string {
	switch {
	case c.NoOutput > 0 && c.NoOutput != watchdog.NoLimit:
		return "NoOutput"
	case c.Probe != nil:
		return "Probe"
	case len(c.Terminal) > 0:
		return "Terminal"
	case c.WallClock > 0 && c.WallClock != watchdog.NoLimit:
		return "WallClock"
	}
	return ""
}

// checkStore returns an error if there is no store for what the sentinel may record. Without a limit that is nothing,
// and inside a run it is that run's store.
func (c *Config) checkStore(ctx context.Context) error {
	limit := c.limit()
	if c.Store != nil || limit == "" || watchdog.FromContext(ctx) != nil {
		return nil
	}
	return invalid("Store is nil and %s is set; set Store, where it is recorded why the command was ended: "+
		"&watchdog.Memory{} is one", limit)
}

// neverTrips reports whether the config has what only a trip uses, and nothing about a limit.
func (c *Config) neverTrips() bool {
	return c.limit() == "" && max(c.NoOutput, c.WallClock) == 0 && (c.Store != nil || c.Artifacts != "")
}

func (c *Config) action(k TripKind) TripAction {
	if k == KindTerminal {
		return c.OnTerminal
	}
	return c.OnStall
}

// checkCommand returns an error for a command that cannot be started.
func checkCommand(cmd *exec.Cmd) error {
	const maxFiles = math.MaxUint8 / 2 // one message to the guard carries at most 253 descriptors on Linux
	var problem string
	switch {
	case cmd == nil:
		problem = "it is nil"
	case cmd.Err != nil:
		return cmd.Err
	case cmd.Process != nil, cmd.ProcessState != nil:
		problem = "it was started already; make a new one for each run"
	case cmd.Cancel != nil:
		problem = "it was made by exec.CommandContext; make it with exec.Command, and pass the context to Run or Start"
	case cmd.WaitDelay != 0:
		problem = "its WaitDelay is set; use Config.Grace"
	case len(cmd.ExtraFiles) > maxFiles:
		problem = fmt.Sprintf("it has %d ExtraFiles; at most %d can be passed on", len(cmd.ExtraFiles), maxFiles)
	case hasExecPipes(cmd):
		problem = "it has a pipe of its own StdinPipe, StdoutPipe or StderrPipe, which is closed now; make a stall.Command " +
			"with NewCommand, and use the methods with these names that it has"
	default:
		return nil
	}
	return fmt.Errorf("%w command: %s", watchdog.ErrInvalid, problem)
}
