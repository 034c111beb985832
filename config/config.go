package config

import (
	"cmp"
	"fmt"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

// A Config holds the limits from a file and the environment. The zero value has the default of every limit. No
// goroutine may change a Config while another uses it.
type Config struct {
	// Disabled is for the [watchdog.Config] of a run: an operator has switched all guards off. Then Stall and Sweep are
	// disabled already. Budget, Kinds and Tick are as they would be otherwise.
	Disabled bool
	// Budget is ready for [watchdog.New]. A limit that was not set is zero, which means its default; a limit that was
	// set to 0 is off.
	Budget watchdog.Budget
	// Kinds classifies the host's own kinds of event, ready for [watchdog.New].
	Kinds watchdog.Kinds
	// Tick is the limit of a bounded call.
	Tick Tick
	// Stall is ready for [stall.Run] once the host has added what a file cannot hold, such as Step. Its Probe and
	// its AlsoEnd are nil without a command.
	Stall stall.Config
	// Sweep is ready for [sweep.New] once the host has added what a file cannot hold, such as a StopHook.
	// Its Resume has no Start and its Alert no Func: the host adds them where Max and Within are set.
	Sweep sweep.Config
	// Keeper is ready for [session.NewKeeper] once the host has added its Store. Its Threshold is the one of Sweep; zero
	// if that is not set, or off.
	Keeper session.KeeperConfig

	unusedProbe     stall.Probe   // the probe's settings, until a command is read
	unusedAlsoEnd   stall.AlsoEnd // the same of what also ends
	graces          graces        // of an ending
	extras          extras        // of a step
	workflow        workflow
	reserveCurrency string            // of the reserve of a cost
	prefix          string            // of the variables, if it is not the default one
	sources         map[string]source // by key path; a missing key has its default
}

// A Tick holds the limits of a [bound.Call]. The zero value of each is its default.
type Tick struct {
	// Limit is how long a call may take, from [bound.MinTick] to [bound.MaxTick]. Zero means [bound.DefaultTick].
	Limit time.Duration
	// Grace is how long it may then take to return, at most Limit. Zero means [bound.DefaultGrace].
	Grace time.Duration
}

// graces are the settings of an ending, as a file has them: a first signal and SIGTERM, with the times after them.
type graces struct {
	signal               syscall.Signal
	interrupt, terminate time.Duration
}

type extras struct {
	activity                  stall.ActivitySource
	captureStderr             bool
	captureProbe              bool // read and not used
	stallClass, terminalClass string
	decisionFile              string
}

// A workflow holds the stall blocks of a file: of its steps, and what they have in common.
type workflow struct {
	defaults, check []placed // defaults.stall, and that of the completion_check at the top level
	hasCheck        bool
	steps           []workflowStep
	index           map[string]int // of the steps, by name
}

// A workflowStep holds the stall blocks of one step, read and not yet merged.
type workflowStep struct {
	name       string
	own, check []placed
	hasCheck   bool
}

// A placed setting is a value and where it stands.
type placed struct {
	key   key
	path  string // as it is written, which may be another path of the key
	place string // the same in the file
	value value
	from  source
}

// A source is where a setting came from. The zero value is the default.
type source struct {
	file     string
	line     int
	variable string
	other    bool // under the key's other name
}

// String describes the source.
func (s source) String() string {
	switch {
	case s.variable != "":
		return "environment " + s.variable
	case s.line > 0:
		return position(s.file, s.line)
	default:
		return "default"
	}
}

// switchedOff returns why a setting from this source is off.
func (s source) switchedOff(path string) string {
	if s == (source{}) {
		return path + " is not set"
	}
	return fmt.Sprintf("%s is switched off by %s", path, s)
}

// overriddenBy reports whether a variable may leave this setting of the file without effect.
func (s source) overriddenBy(other source) bool { return other.variable != "" && s.variable == "" }

func (s source) fault(path, value, problem string) *Error {
	return &Error{File: s.file, Line: s.line, Variable: s.variable, Key: path, Value: value, Problem: problem}
}

// probe returns the probe's settings: those of the probe in force, or of one that never runs.
func (c *Config) probe() *stall.Probe { return cmp.Or(c.Stall.Probe, &c.unusedProbe) }

// alsoEnd returns the settings of what also ends: those in force, or of one that has no command.
func (c *Config) alsoEnd() *stall.AlsoEnd { return cmp.Or(c.Stall.AlsoEnd, &c.unusedAlsoEnd) }

// adoptStall makes the sentinel's config of what was read: a probe and what also ends need a command.
func (c *Config) adoptStall() {
	if len(c.unusedProbe.Command) > 0 {
		probe := c.unusedProbe
		c.Stall.Probe, c.unusedProbe = &probe, stall.Probe{}
	}
	if len(c.unusedAlsoEnd.Command) > 0 {
		alsoEnd := c.unusedAlsoEnd
		c.Stall.AlsoEnd, c.unusedAlsoEnd = &alsoEnd, stall.AlsoEnd{}
	}
	g := c.graces
	first := stall.Step{
		Signal: cmp.Or(g.signal, syscall.SIGINT), Grace: max(cmp.Or(g.interrupt, stall.DefaultInterruptGrace), 0),
	}
	terminate := stall.Step{Signal: syscall.SIGTERM, Grace: max(cmp.Or(g.terminate, stall.DefaultTerminateGrace), 0)}
	switch {
	case g == graces{}:
	case first.Signal == syscall.SIGKILL:
		c.Stall.Grace = []stall.Step{{Signal: syscall.SIGKILL}}
	case first.Signal == syscall.SIGTERM:
		c.Stall.Grace = []stall.Step{terminate}
	default:
		c.Stall.Grace = []stall.Step{first, terminate}
	}
}
