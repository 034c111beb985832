package config

import (
	"cmp"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/stall"
)

// graces are the settings of an ending, as a file has them: a first signal and SIGTERM, with the times after them.
type graces struct {
	signal               syscall.Signal
	interrupt, terminate time.Duration
}

// first returns the first signal in force.
func (g graces) first() syscall.Signal { return cmp.Or(g.signal, syscall.SIGINT) }

// adoptGrace makes steps of the settings, if there are any.
func (c *Config) adoptGrace() {
	g := c.graces
	first := stall.Step{Signal: g.first(), Grace: max(cmp.Or(g.interrupt, stall.DefaultInterruptGrace), 0)}
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

// grace is the kind of the time after a signal. 0 is a valid length: the next signal follows at once.
type grace struct{ length }

func (g grace) show(c *Config) string {
	if *g.field(c) == watchdog.None {
		return "none"
	}
	return g.effective(c).String()
}

func (g grace) off(*Config) bool { return false }

// firstSignal is the kind of the signal that comes first.
type firstSignal struct{}

func (firstSignal) fromVariable(text string) value { return fromText(text) }

func (firstSignal) set(c *Config, v value) *invalidValue {
	if problem := wordProblem(v); problem != "" {
		return v.invalid(problem)
	}
	sig, problem := signame.Parse(v.text)
	if problem != "" {
		return v.invalid(problem)
	}
	c.graces.signal = sig
	return nil
}

func (firstSignal) show(c *Config) string { return signame.Name(c.graces.first()) }
func (firstSignal) off(c *Config) bool    { return c.graces.first() == syscall.SIGINT }
