package stall

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/internal/tty"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

const (
	maxTail  = 1 << 20 // the largest Bytes of a [Tail]
	maxSteps = 10      // of [Config].Grace
)

func (c *Config) check() error {
	if err := artifact.CheckStep(c.Step); err != nil {
		return fmt.Errorf("%w stall config: %w", watchdog.ErrInvalid, err)
	}
	if c.TTY && !tty.Supported {
		return invalid("TTY is set, but a command can have the host's terminal on Linux only; leave it off")
	}
	return cmp.Or(c.checkTimes(), c.checkNames(), checkSteps(c.Grace), c.Probe.check(), c.AlsoEnd.check(), c.checkTail())
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w stall config: %s", watchdog.ErrInvalid, fmt.Sprintf(format, args...))
}

func (c *Config) checkTimes() error {
	return cmp.Or(
		notNegative("NoOutput", c.NoOutput, "none"), notNegative("WallClock", c.WallClock, "none"),
		notNegative("RecordTimeout", c.RecordTimeout, watchdog.DefaultRecordTimeout),
	)
}

func notNegative(field string, value time.Duration, zero any) error {
	if value < 0 {
		return invalid("%s is %v; use a positive duration, or 0 for %v", field, value, zero)
	}
	return nil
}

func (c *Config) checkNames() error {
	if p := c.FingerprintPrefix; p != "" && (!artifact.ValidFingerprint(p) || strings.Trim(p, "/") != p) {
		return invalid("FingerprintPrefix is %q; use letters, digits and ._:/@=+-, and no slash at either end", p)
	}
	if i := slices.Index(c.Terminal, nil); i >= 0 {
		return invalid("pattern %d of Terminal is nil", i+1)
	}
	const actions = "ActionInterrupt, ActionFail or ActionIgnore"
	return cmp.Or(
		oneOf("ActivitySource", c.ActivitySource, "ActivityAny, ActivityStdout or ActivityStderr",
			ActivityAny, ActivityStdout, ActivityStderr),
		oneOf("OnStall", c.OnStall, actions, ActionInterrupt, ActionFail, ActionIgnore),
		oneOf("OnTerminal", c.OnTerminal, actions, ActionInterrupt, ActionFail, ActionIgnore),
	)
}

// oneOf returns an error for a value that is neither empty nor one of those that are known by the names.
func oneOf[T ~string](field string, value T, names string, known ...T) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return invalid("%s is %q; use %s", field, value, names)
}

func checkSteps(steps []Step) error {
	if len(steps) > maxSteps {
		return invalid("Grace has %d steps; use at most %d", len(steps), maxSteps)
	}
	for i, step := range steps {
		name, problem := signame.Name(step.Signal), signame.Unfit(step.Signal)
		switch last := i == len(steps)-1; {
		case step.Signal == 0:
			return invalid("step %d of Grace has no signal; set Signal, such as to syscall.SIGTERM", i+1)
		case problem != "":
			return invalid("step %d of Grace is %s, which %s; use another signal, such as syscall.SIGTERM", i+1, name, problem)
		case step.Grace < 0:
			return invalid("step %d of Grace waits %v after %s; use a positive duration, or 0 for none", i+1, step.Grace, name)
		case step.Signal == syscall.SIGKILL && !last:
			return invalid("step %d of Grace is SIGKILL, after which nothing comes; make it the last one", i+1)
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
		return invalid("Tail.Redact is not set; output can hold secrets: set what removes them, such as a detector of " +
			"gitleaks")
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
	case p.StallThreshold < 0 || p.StallThreshold == 1:
		return invalid("Probe.StallThreshold is %d; use at least 2, because one probe alone cannot show a lack of change, "+
			"or 0 for %d", p.StallThreshold, DefaultStallThreshold)
	case p.ErrorThreshold < 0:
		return invalid("Probe.ErrorThreshold is %d; use at least 1, or 0 for %d",
			p.ErrorThreshold, DefaultProbeErrorThreshold)
	}
	return cmp.Or(
		notNegative("Probe.Interval", p.Interval, DefaultProbeInterval),
		notNegative("Probe.Timeout", p.Timeout, DefaultProbeTimeout),
		oneOf("Probe.OnError", p.OnError, "ErrorIgnored, ErrorStall or ErrorTerminal",
			ErrorIgnored, ErrorStall, ErrorTerminal),
	)
}

func (a *AlsoEnd) check() error {
	switch {
	case a == nil:
		return nil
	case len(a.Command) == 0 || a.Command[0] == "":
		return invalid("AlsoEnd.Command is empty; set it to the program that ends the rest and its arguments")
	}
	// Later would be too late: it is needed when something is stuck already.
	if err := exec.Command(a.Command[0]).Err; err != nil { //nolint:noctx // it is only looked up
		return invalid("AlsoEnd.Command has a program that cannot be started: %v; install it, or write its path",
			withoutName(err))
	}
	return notNegative("AlsoEnd.Timeout", a.Timeout, DefaultAlsoEndTimeout)
}

// inForce is the valid config without all that watches the command if it is disabled, or the run in ctx is.
func (c Config) inForce(ctx context.Context) Config {
	if outer := handle.Of(ctx); outer != nil && outer.Settings().Disabled {
		c.Disabled = true
	}
	if c.Disabled {
		c.WallClock, c.NoOutput, c.Probe, c.Terminal, c.Artifacts, c.Tail = 0, 0, nil, nil, "", nil
	}
	return c
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
